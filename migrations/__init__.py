"""Alembic migrations; they travel with the package so that `coldcast migrate` needs no checkout."""
