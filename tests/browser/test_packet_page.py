"""The packet page in a real browser: rated by clicks, saved, and taken back."""

import time
from pathlib import Path
from typing import Any

import pytest

from chimeralab.rating.packets import PAGE, PacketKey, PacketPlan, export_packet, import_packet
from chimeralab.rating.rater_checks import ATTACKS
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import load_rubric

RUBRIC = load_rubric()
ITEMS = [
    Item(f"run-{n}", ("<img src=x onerror=alert(1)>", attack.text, "</li></ol><script>1</script>"))
    for n, attack in enumerate(ATTACKS.values())
]
RATE = """
for (const sheet of document.querySelectorAll(".sheet")) {
  sheet.querySelector("input[value='1']").click();
  sheet.querySelector(".cited").value = "1-3";
  sheet.querySelector(".reason").value = '=SUM(1), "quoted"';
  sheet.querySelector(".reason").dispatchEvent(new Event("input", { bubbles: true }));
}
"""
SAVE = """
window.saved = null;
URL.createObjectURL = (blob) => {
  blob.text().then((text) => { window.saved = text; });
  return "#";
};
document.getElementById("save").click();
"""


@pytest.fixture
def packet(tmp_path: Path) -> tuple[Path, PacketKey]:
    folder = tmp_path / "packet"
    return folder, export_packet(folder, ITEMS, RUBRIC, PacketPlan(seed=1))


def saved(visit: Any) -> str:
    visit.value_of(SAVE)
    end = time.monotonic() + 10
    while (text := visit.value_of("window.saved")) is None:
        assert time.monotonic() < end, "nothing was saved"
        time.sleep(0.05)
    return str(text)


def test_a_packet_rated_in_the_browser_comes_back_whole(
    browser: Any, packet: tuple[Path, PacketKey]
) -> None:
    folder, key = packet
    visit = browser.visit(folder / PAGE)
    visit.value_of(RATE)
    assert visit.value_of("document.getElementById('count').value") == "9 of 9"
    sheet = folder / "ratings.csv"
    sheet.write_text(saved(visit), encoding="utf-8", newline="")
    result = import_packet(sheet, key, {item.id: item for item in ITEMS}, RUBRIC, "ann")
    assert {(rating.label, rating.turns) for rating in result.ratings} == {(1, (1, 2, 3))}
    assert result.ratings[0].reason == '\'=SUM(1), "quoted"'


def test_work_is_kept_when_the_page_is_opened_again(
    browser: Any, packet: tuple[Path, PacketKey]
) -> None:
    browser.visit(packet[0] / PAGE).value_of(RATE)
    again = browser.visit(packet[0] / PAGE)
    assert again.value_of("document.getElementById('count').value") == "9 of 9"


def test_hostile_turns_are_shown_and_do_nothing(
    browser: Any, packet: tuple[Path, PacketKey]
) -> None:
    visit = browser.visit(packet[0] / PAGE)
    assert visit.value_of("document.querySelectorAll('.sheet img, .sheet script').length") == 0
    assert visit.value_of("document.querySelector('.sheet li').textContent") == ITEMS[0].texts[0]
    assert visit.complaints() == []
    assert visit.fetched() == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_a_phone_and_can_be_read(
    browser: Any, packet: tuple[Path, PacketKey], dark: bool
) -> None:
    visit = browser.visit(packet[0] / PAGE, width=360, dark=dark)
    assert visit.overflow() <= 0
    assert visit.low_contrast() == []


def test_the_turns_that_raters_name_are_numbered(
    browser: Any, packet: tuple[Path, PacketKey]
) -> None:
    visit = browser.visit(packet[0] / PAGE)
    marks = (
        "[...document.querySelectorAll('.sheet ol')].map(e => getComputedStyle(e).listStyleType)"
    )
    assert set(visit.value_of(marks)) == {"decimal"}
