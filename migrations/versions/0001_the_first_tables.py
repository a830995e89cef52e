"""The first tables.

Revision: 0001, after None.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fits",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("fitted_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("measurements", sa.Integer(), nullable=False),
        sa.Column("content", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("scores", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("left_out", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.CheckConstraint("status IN ('promoted', 'rejected')", name=op.f("ck_fits_status_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fits")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "measurements",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column(
            "received_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("total_seconds", sa.Float(), nullable=False),
        sa.Column("reference", sa.Boolean(), nullable=False),
        sa.Column("reporter", sa.Text(), nullable=False),
        sa.Column("model_key", sa.Text(), nullable=False),
        sa.Column("gpu_key", sa.Text(), nullable=False),
        sa.Column("hardware_key", sa.Text(), nullable=False),
        sa.Column("engine_version", sa.Text(), nullable=True),
        sa.Column("engine_minor", sa.Text(), nullable=False),
        sa.Column("content", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("prediction", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint("outcome IN ('ready', 'failed', 'timed_out')", name=op.f("ck_measurements_outcome_known")),
        sa.CheckConstraint("status IN ('accepted', 'quarantined')", name=op.f("ck_measurements_status_known")),
        sa.PrimaryKeyConstraint("source", "id", name=op.f("pk_measurements")),
    )
    op.create_index("ix_measurements_model_key", "measurements", ["model_key"], unique=False)
    op.create_index(
        "ix_measurements_received_at_id_source", "measurements", ["received_at", "id", "source"], unique=False
    )
    op.create_table(
        "champion",
        sa.Column("one", sa.Boolean(), nullable=False),
        sa.Column("fit_id", sa.BigInteger(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column(
            "changed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("one", name=op.f("ck_champion_one_row")),
        sa.ForeignKeyConstraint(["fit_id"], ["fits.id"], name=op.f("fk_champion_fit_id_fits")),
        sa.PrimaryKeyConstraint("one", name=op.f("pk_champion")),
    )
    op.create_table(
        "refits",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column(
            "requested_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("fit_id", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("outcome IN ('promoted', 'rejected', 'nothing_new')", name=op.f("ck_refits_outcome_known")),
        sa.ForeignKeyConstraint(["fit_id"], ["fits.id"], name=op.f("fk_refits_fit_id_fits")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refits")),
    )


def downgrade() -> None:
    op.drop_table("refits")
    op.drop_table("champion")
    op.drop_index("ix_measurements_received_at_id_source", table_name="measurements")
    op.drop_index("ix_measurements_model_key", table_name="measurements")
    op.drop_table("measurements")
    op.drop_table("leases")
    op.drop_table("fits")
