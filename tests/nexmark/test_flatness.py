"""How flatness is judged and drawn."""

import xml.etree.ElementTree as ET

import pytest

from nexmark.flatness import panels, summary
from nexmark.plot import Panel, svg, ticks

SVG = "{http://www.w3.org/2000/svg}"


def test_the_last_tenth_is_held_against_the_second():
    """The first tenth is warm-up; one slow microbatch does not count, a slope does."""
    flat = [900.0] * 10 + [100.0] * 90
    assert summary(flat)["ratio"] == 1.0
    flat[95] = 9_000.0
    assert summary(flat) == {"second_tenth_ms": 100.0, "last_tenth_ms": 100.0, "ratio": 1.0}
    assert summary([100.0 + number for number in range(100)])["ratio"] == pytest.approx(1.7, 0.01)
    assert summary([50.0])["ratio"] == 1.0


@pytest.mark.parametrize(
    ("highest", "marks"),
    [
        (0, [0, 1]),
        (4, [0, 1, 2, 3, 4]),
        (95, [0, 25, 50, 75, 100]),
        (1_100, [0, 500, 1_000, 1_500]),
        (0.3, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_axes_have_round_marks(highest, marks):
    """From nothing to at least the highest value."""
    assert ticks(highest) == pytest.approx(marks)


def test_a_line_stays_in_its_panel_and_keeps_its_spikes():
    """The highest point of thousands is drawn highest, inside the picture."""
    line = [(x, 10.0) for x in range(5_000)]
    line[3_333] = (3_333, 80.0)
    root = ET.fromstring(svg([Panel("spikes & <more>", {"all": line})], "x"))
    (path,) = [each for each in root.iter(f"{SVG}path") if each.get("stroke")]
    points = [tuple(map(float, point.split())) for point in path.get("d")[1:].split("L")]
    assert len(points) <= 400
    assert all(0 <= x <= 360 and 0 <= y <= 190 for x, y in points)
    top = min(points, key=lambda point: point[1])
    assert [y for _, y in points].count(top[1]) == 1
    assert top[0] == pytest.approx(52 + 3_333 / 4_999 * 286, abs=0.2)


def test_a_report_becomes_small_charts():
    """Every quantity has a panel, every part of it a line."""
    sample = {
        "disk_bytes": {"depots": 10, "state": 5, "rest": 1},
        "memory_bytes": {"driver": 1, "java": 2, "workers": 3},
        "open_files": {"driver": 1, "java": 2, "workers": 3},
        "spark": {"jobs": 1, "stages": 2, "tasks": 3, "RDDs": 0, "executions": 1},
    }
    report = {
        "batch": 100,
        "durations_ms": [1.0] * 2_000,
        "samples": [{"events": number * 100, **sample} for number in range(200)],
    }
    charts = panels(report)
    assert [len(chart.series) for chart in charts] == [1, 3, 3, 3, 5]
    drawn = svg(charts, "q5: events processed")
    paths = [each for each in ET.fromstring(drawn).iter(f"{SVG}path") if each.get("stroke")]
    assert len(paths) == 15
    assert len(drawn) < 60_000


def test_powers_of_ten_are_as_far_from_each_other():
    """From the first point to the last one, whatever they are; one alone stands at the left."""
    line = [(10.0**power, 1.0) for power in range(4, 8)]
    root = ET.fromstring(svg([Panel("keys", {"all": line}, powers=True)], "keys"))
    (path,) = [each for each in root.iter(f"{SVG}path") if each.get("stroke")]
    across = [float(point.split()[0]) for point in path.get("d")[1:].split("L")]
    assert across == pytest.approx([52, 52 + 286 / 3, 52 + 2 * 286 / 3, 52 + 286], abs=0.1)
    assert svg([Panel("one", {"all": line[:1]}, powers=True)], "keys")
