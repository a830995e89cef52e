"""Probe: the node's label, for fleets whose equal machines are not equal."""

from agent.probes.base import Context, Found, NoData

__all__ = ["probe"]


def probe(context: Context) -> Found:
    """Take the label from ``COLDCAST_NODE``; a host name is never sent, since it may name a person or a customer."""
    if not (node := context.environment.get("COLDCAST_NODE", "").strip()):
        raise NoData("COLDCAST_NODE is not set")
    return Found({"hardware": {"node": node}})
