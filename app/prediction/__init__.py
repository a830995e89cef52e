"""The mathematics: specs and measurements in, fits and predictions out. Pure: no web framework, no database."""
