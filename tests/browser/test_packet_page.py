"""The packet page in a real browser: rated, saved and imported."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from chimeralab.rating.packets import (
    PAGE,
    PacketKey,
    export_packet,
    import_packet,
    lay_out_packet,
)
from chimeralab.rating.rater_checks import ATTACKS
from chimeralab.rating.ratings import Item, Shuffler
from chimeralab.rating.rubric import load_rubric
from tests.browser.pages import complaints, fetched, low_contrast, new_page, overflow

pytestmark = pytest.mark.anyio
RUBRIC = load_rubric()
ITEMS = [
    Item(f"run-{n}", ("<img src=x onerror=alert(1)>", text, "</li></ol><script>1</script>"))
    for n, (text, _) in enumerate(ATTACKS.values())
]


@pytest.fixture
def packet(tmp_path: Path) -> tuple[Path, PacketKey]:
    folder = tmp_path / "packet"
    laid_out = lay_out_packet(ITEMS, RUBRIC, Shuffler("secret", "1"))
    return folder, export_packet(folder, laid_out, RUBRIC)


@pytest.fixture
def address(packet: tuple[Path, PacketKey]) -> str:
    return (packet[0] / PAGE).as_uri()


async def rate(page: Page) -> None:
    for sheet in await page.locator(".sheet").all():
        await sheet.locator("input[value='1']").check()
        await sheet.locator(".cited").fill("T0-T2")
        await sheet.locator(".reason").fill('=SUM(1), "quoted"')


async def test_packet_rated_in_the_browser_is_imported_completely(
    page: Page, packet: tuple[Path, PacketKey], address: str
) -> None:
    folder, key = packet
    await page.goto(address)
    await rate(page)
    await expect(page.locator("#count")).to_have_text("9 of 9")
    async with page.expect_download() as download:
        await page.locator("#save").click()
    saved = await download.value
    assert saved.suggested_filename == "ratings.csv"
    sheet = folder / "filled.csv"
    await saved.save_as(sheet)
    ratings, _ = import_packet(sheet, key, {item.id: item for item in ITEMS}, RUBRIC, "ann")
    assert {(rating.label, rating.turns) for rating in ratings} == {(1, (1, 2, 3))}
    assert ratings[0].reason == '\'=SUM(1), "quoted"'


async def test_work_is_restored_when_the_page_is_reopened(page: Page, address: str) -> None:
    await page.goto(address)
    await rate(page)
    again = await page.context.new_page()
    await again.goto(address)
    await expect(again.locator("#count")).to_have_text("9 of 9")


async def test_hostile_turns_are_shown_and_do_nothing(page: Page, address: str) -> None:
    await page.goto(address)
    assert await page.locator(".sheet img, .sheet script").count() == 0
    assert await page.locator(".sheet li").first.text_content() == ITEMS[0].texts[0]
    assert await complaints(page) == []
    assert await fetched(page) == []


async def test_page_fits_a_phone_and_can_be_read(browser: Browser, address: str) -> None:
    async with new_page(browser, 360) as phone:
        await phone.goto(address)
        assert await overflow(phone) <= 0
        assert await low_contrast(phone) == []
        await phone.emulate_media(color_scheme="dark")
        assert await low_contrast(phone) == []


async def test_turns_of_a_packet_are_numbered(page: Page, address: str) -> None:
    await page.goto(address)
    marks = "lists => lists.map(list => getComputedStyle(list).listStyleType)"
    assert set(await page.locator(".sheet ol").evaluate_all(marks)) == {"from-t0"}
