"""The Coldcast agent: measures vLLM startups on a GPU node and reports them."""
