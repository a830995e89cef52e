"""The picture of the H200's startups: well-formed, and as wide as the seconds say."""

from xml.etree import ElementTree

import pytest

from bench.draw_h200 import LEFT, PIXELS_A_SECOND, picture
from bench.reference_rows import h200_rows


def test_each_startup_is_drawn_measured_and_predicted() -> None:
    startups = h200_rows()
    rows = [
        {
            "method": "ours",
            "model": row.model,
            "measurement": row.measurement.id,
            "predicted": {name: 2 * seconds for name, seconds in row.seconds.items()},
            "learned": {"own": [r.measurement.id for r in startups if r.host == row.host and r.model != row.model]},
        }
        for row in startups
    ]
    drawn = ElementTree.fromstring(picture(rows))
    bars = [rect.attrib for rect in drawn.iter("{http://www.w3.org/2000/svg}rect") if "opacity" in rect.attrib]
    first, second = bars[:7], bars[7:14]
    total = startups[0].seconds["total"]
    assert len(bars) == 2 * 7 * len(startups)
    assert float(first[0]["x"]) == LEFT
    assert sum(float(bar["width"]) for bar in first) == pytest.approx(PIXELS_A_SECOND * total, abs=0.5)
    assert sum(float(bar["width"]) for bar in second) == pytest.approx(2 * PIXELS_A_SECOND * total, abs=0.5)
