"""The Coldcast service: measured vLLM startups in, stage-wise predictions out."""
