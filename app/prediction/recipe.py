"""The recipe: every constant that a fit is made with, each with what comes out of it."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The constants of a fit. Standard deviations are of the logarithm of seconds: 0.1 is about 10 %.

    The wider a level's deviation against ``noise``, the fewer measurements it takes to move: a level with deviation t
    goes n t^2 / (n t^2 + noise^2) of the way after n measurements.
    """

    floor_seconds: float = 0.1
    """Added to both sides of every ratio: 0.02 s against 0.04 s is a ratio of 1.17, not 2, and 0 s has a logarithm."""
    noise: float = 0.03
    """From startup to startup. The paper's nodes repeat to 0.3 % and 3 %: one measurement moves history 92 %."""
    freedom: float = 4.0
    """Degrees of freedom of Student's t: a startup 5 deviations off counts a sixth, one off by x10 a thousandth."""
    coefficient_deviation: float = 1.0
    """Relative prior deviation of a coefficient: within a factor of two of its prior unless the data say otherwise."""
    model_scatter: float = 0.1
    """How far a model lies from its features: weighs ten models against the prior like 1000 to 1."""
    busy_mean: float = 0.3
    """Logarithm of the slowdown on cores that others keep wholly busy, before any measurement: 35 %."""
    busy: float = 0.1
    """Deviation of that slope."""
    quota_mean: float = 0.15
    """Logarithm of the slowdown for each halving of the usable cores below eight: 16 %; a guess, to be measured."""
    quota: float = 0.15
    """Deviation of that slope."""
    condition: float = 0.5
    """A cache state or load format against its features: two measurements settle it."""
    variant: float = 0.3
    """An unusual load format, quantization or choice of captured sizes against the usual."""
    version: float = 0.15
    """One engine version against its predecessor."""
    place: float = 0.15
    """All parts of a kind on one CPU (or GPU) type."""
    place_part: float = 0.1
    """One part on one CPU (or GPU) type."""
    node: float = 0.3
    """All parts of a kind on one hardware: after one measurement 99 % its own."""
    node_part: float = 0.3
    """One part on one hardware."""
    bandwidth: float = 0.7
    """Weight loading on one hardware: the paper's disks are 0.54 and 4.5 GB/s."""
    own: float = 0.2
    """The operator's own measurements against the shipped reference ones on the same hardware: 98 % after one."""
    own_part: float = 0.1
    """The same for one part."""
    architecture: float = 0.2
    """Models of one architecture against their features: 80 % of what one model of it shows, 94 % of four."""
    model: float = 0.1
    """One model against its features and architecture, wherever it starts."""
    history: float = 0.1
    """One model on one hardware against everything else."""
    own_history: float = 0.1
    """The operator's own measurements of one model on one hardware against the reference ones."""
    variance_votes: float = 5.0
    """Effects that a level's deviation above counts for: with five measured ones it moves half of the way."""
    noise_votes: float = 20.0
    """Startups that the noise above counts for."""
    rounds: int = 3
    """Turns between coefficients and effects; the fourth changes the total of the reference set by under 0.1 %."""
    rough_sweeps: int = 5
    """Turns of the first round that leave out single models; after five, coarse effects move by under 1 %."""
    sweeps: int = 12
    """Turns over the levels in each round."""
    folds: int = 6
    """Groups of models held out in turn for the bounds."""

    def to_json(self) -> dict[str, Any]:
        """Return the constants as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Recipe":
        """Rebuild a recipe; constants that this version does not know are ignored, missing ones take their default."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})
