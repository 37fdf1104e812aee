"""The web page in a real browser: headless Chromium against the program, with the small picture model and a tiny one of text."""
import base64
import http.client
import json
import shutil
import socket
import time
import urllib.error
import urllib.request

import pytest
from conftest import ROOT
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from web_page import CONTRASTS, PATIENCE_S, Page, headless_chromium


@pytest.fixture(scope="module")
def driver():
    driver = headless_chromium()
    yield driver
    driver.quit()


@pytest.fixture
def page(driver):
    """The page, and afterwards a look at the console: nothing may have failed there but refused requests."""
    driver.get_log("browser")
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
    yield Page(driver)
    left = [entry["message"] for entry in driver.get_log("browser") if entry["source"] != "network"]
    assert left == []


@pytest.fixture(scope="module")
def pictures(serve):
    with serve(ROOT / "models" / "shapes-flux", "--disable-access-log") as (url, _, _):
        yield url


@pytest.fixture(scope="module")
def text(serve, smollm2):
    with serve(smollm2, "--disable-access-log") as (url, _, _):
        yield url


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def open_pictures(page, url, **more):
    page.open(url, "pictures")
    page.fill(**{"prompt": "a red circle on a white background", "size": "64x64", "steps": "3", **more})
    return page


def test_empty_fields_show_the_models_defaults(page, pictures):
    page.open(pictures, "pictures")
    shown = {name: page[name].get_attribute("placeholder") for name in ("size", "steps", "guidance")}
    assert shown == {"size": "128x128", "steps": "28", "guidance": "3.5"}
    assert page["size-hint"].text == "Width x height in pixels, multiples of 16."


def test_a_picture_is_drawn_by_keyboard_alone(page, pictures):
    page.open(pictures, "pictures")
    for name, value in [("prompt", "a red circle"), ("size", "64x64"), ("steps", "4"), ("seed", "7")]:
        page.tab_to(name)
        page.press(value)
    page.tab_to("draw")
    page.press(Keys.ENTER)
    page.wait(lambda: len(page.items()) == 1)
    page.wait_until_idle()
    assert page.run("return document.activeElement.id") == "draw"
    assert [f"Step {step} of 4" in page.heard("progress") for step in (1, 2, 3, 4)] == [True] * 4
    assert page.run("return document.getElementById('stage-picture').naturalWidth") == 64
    assert page["stage-picture"].get_attribute("alt") == "a red circle"
    news = page.heard("news")
    assert news[0] == "Drawing." and news[-1] == "Picture 1 is done, seed 7."
    assert "50 percent drawn." in news and len(news) <= 5


def test_previews_are_shown_on_the_way(page, pictures):
    open_pictures(page, pictures)
    page.run("""window.captions = [];
      new MutationObserver(() => window.captions.push(document.getElementById("stage-caption").textContent))
        .observe(document.getElementById("stage-caption"), {childList: true});""")
    page.draw()
    assert "Preview" in page.run("return window.captions")
    page["previews"].click()
    page.run("window.captions.length = 0")
    page.draw()
    assert "Preview" not in page.run("return window.captions")


def test_the_last_seed_makes_the_same_picture(page, pictures):
    open_pictures(page, pictures, prompt="<b>a</b> red circle & \"star\"")
    page.draw()
    assert page["seed"].get_attribute("value") == ""
    page["seed-again"].click()
    seed = page["seed"].get_attribute("value")
    assert seed.isdigit() and f"Last used: {seed}." in page["seed-hint"].text
    page.draw()
    page.fill(seed=str((int(seed) + 1) % 2**32))
    page.draw()
    assert "identical, pixel for pixel" in page.compare(1, 2)
    page.items()[0].find_element(By.CSS_SELECTOR, "[type=checkbox]").click()  # in the place of the oldest choice
    page.wait(lambda: "PSNR" in page["compare-figures"].text)
    assert page.items()[0].find_element(By.CLASS_NAME, "prompt").text == "<b>a</b> red circle & \"star\""
    assert page.all("#gallery b") == []


def test_several_pictures_and_their_settings(page, pictures):
    open_pictures(page, pictures, n="2", seed="41")
    page.draw(2)
    page.fill(prompt="something else", steps="1", n="3", seed="0")
    page.item_button(0, "Use these settings").click()
    values = {name: page[name].get_attribute("value") for name in ("prompt", "size", "steps", "n", "seed", "guidance")}
    assert values == {"prompt": "a red circle on a white background", "size": "64x64", "steps": "3", "n": "1", "seed": "42",
                      "guidance": ""}
    assert page.run("return document.activeElement.id") == "prompt"
    page.draw()
    assert "identical" in page.compare(0, 1)
    link = page.item_button(0, "Download")
    assert link.get_attribute("download") == "quaver-42.png" and link.get_attribute("href").startswith("blob:")
    page.item_button(0, "Remove").click()
    assert len(page.items()) == 2 and not page["compare"].is_displayed()
    assert page.run("return document.activeElement.textContent") == "Use these settings"


@pytest.mark.parametrize("control, value, field, wrong", [("size", "100x100", "size", "100x100"),
                                                          ("steps", "9999", "num_inference_steps", 9999)])
def test_errors_of_the_server_are_shown_as_they_are(page, pictures, control, value, field, wrong):
    open_pictures(page, pictures, **{control: value})
    page["draw"].click()
    page.wait(lambda: page["picture-error"].is_displayed())
    said = post(pictures + "/v1/images/generations", {"prompt": "x", field: wrong})["error"]["message"]
    assert page["picture-error"].text == f"Error: {said}"
    assert page[control].get_attribute("aria-invalid") == "true"
    assert page[control].get_attribute("aria-errormessage") == "picture-error"
    assert page.run("return document.activeElement.id") == control
    page.fill(size="64x64", steps="1")
    page.draw()
    assert not page["picture-error"].is_displayed() and not page[control].get_attribute("aria-invalid")


def test_cancel_ends_the_drawing_here_and_there(page, pictures):
    open_pictures(page, pictures, size="512x512", steps="200")
    page["draw"].click()
    page.wait(lambda: page["cancel"].is_displayed())
    page["cancel"].send_keys(Keys.ENTER)
    page.wait_until_idle()
    assert page["stage-caption"].text == "Cancelled." and page.heard("news")[-1] == "Cancelled."
    assert page.run("return document.activeElement.id") == "draw" and page.items() == []
    end = time.monotonic() + PATIENCE_S
    while json.load(urllib.request.urlopen(pictures + "/load"))["server_load"] > 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_place_in_the_queue_is_shown(page, pictures):
    open_pictures(page, pictures)
    other = http.client.HTTPConnection(pictures.removeprefix("http://"), timeout=PATIENCE_S)
    body = {"prompt": "a blue star", "size": "512x512", "num_inference_steps": 200, "stream": True}
    other.request("POST", "/v1/images/generations", json.dumps(body), {"Content-Type": "application/json"})
    other.getresponse().fp.readline()  # it is there
    page["draw"].click()
    page.wait(lambda: page["progress-text"].text == "Waiting: 1 request ahead")
    assert page.heard("news")[-1] == "Waiting, 1 request ahead."
    assert len(page.all("#progress-bar:indeterminate")) == 1
    other.sock.shutdown(socket.SHUT_RDWR)
    other.close()
    page.wait(lambda: len(page.items()) == 1)


def test_two_pictures_are_compared_in_three_ways(page, pictures):
    open_pictures(page, pictures, n="2", seed="1")
    page.draw(2)
    page.compare(1, 0)
    share = "return getComputedStyle(document.querySelector('.split')).getPropertyValue('--share')"
    page["compare-share"].send_keys(Keys.HOME)
    assert page.run(share) == "0%"
    page["compare-share"].send_keys(Keys.ARROW_RIGHT)
    assert page.run(share) == "1%"
    radio = page.all("[name=compare-view]")[0]
    radio.send_keys(Keys.ARROW_RIGHT)
    assert page["compare-pair"].is_displayed() and not page["compare-split"].is_displayed()
    assert [caption.text for caption in page.all("#compare-pair figcaption")] == ["Picture 1, seed 1", "Picture 2, seed 2"]
    page.all("[name=compare-view]")[1].send_keys(Keys.ARROW_RIGHT)
    assert page["compare-difference"].is_displayed()
    painted = """const canvas = document.getElementById("difference");
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
      copy.drawImage(canvas, 0, 0);
      return [canvas.width, canvas.height, copy.getImageData(0, 0, canvas.width, canvas.height).data.reduce((a, b) => a + b)];"""
    Select(page["gain"]).select_by_value("1")
    width, height, plain = page.run(painted)
    # Opaque everywhere; the colours' sum is the mean that stands in the figures.
    mean = float(page["compare-figures"].text.split("mean difference ")[1].split(" ")[0])
    assert (width, height) == (64, 64) and abs((plain - 255 * 64 * 64) / (3 * 64 * 64) - mean) <= 0.005
    Select(page["gain"]).select_by_value("16")
    assert page.run(painted)[2] > plain


def test_pictures_of_two_sizes_stand_side_by_side_alone(page, pictures):
    open_pictures(page, pictures, steps="1")
    page.draw()
    page.fill(size="64x128")
    page.draw()
    assert "sizes differ, 64x128 and 64x64" in page.compare(0, 1)
    assert page["compare-pair"].is_displayed()
    assert [radio.is_enabled() for radio in page.all("[name=compare-view]")] == [False, True, False]


def test_a_drawing_starts_from_a_picture_and_keeps_what_the_mask_keeps(page, pictures, tmp_path):
    answer = post(pictures + "/v1/images/generations", {"prompt": "a blue square", "size": "64x64", "num_inference_steps": 4, "seed": 3})
    source = tmp_path / "source.png"
    source.write_bytes(base64.b64decode(answer["data"][0]["b64_json"]))
    open_pictures(page, pictures, size="", seed="5")
    assert not page["strength"].is_enabled() and not page["mask"].is_enabled()
    page.all("#source-panel summary")[0].click()
    page["source"].send_keys(str(source))
    assert page["source-shown"].is_displayed()
    page.fill(strength="0.5")
    page.draw()
    assert page.run("return document.getElementById('stage-picture').naturalWidth") == 64  # the source's size
    page.item_button(0, "Start from this").click()
    assert page.run("return document.getElementById('source').files[0].name") == "quaver-5.png"
    page["mask"].send_keys(str(source))
    page.draw()
    page["mask-remove"].click()
    assert page.run("return document.activeElement.id") == "mask"
    page["source-remove"].click()
    assert not page["mask"].is_enabled() and not page["source-shown"].is_displayed()
    page.item_button(0, "Use these settings").click()
    assert page["source-shown"].is_displayed() and page["mask-shown"].is_displayed()
    assert page["strength"].get_attribute("value") == "0.5"


def test_files_are_taken_where_they_are_dropped(page, pictures):
    open_pictures(page, pictures)
    drop = """const files = new DataTransfer();
      files.items.add(new File([Uint8Array.of(1)], arguments[1], {type: "image/png"}));
      const event = new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true});
      document.querySelector(arguments[0]).dispatchEvent(event);
      return event.defaultPrevented;"""
    name = "return document.getElementById(arguments[0]).files[0]?.name"
    assert page.run(drop, "h1", "first.png") and page.run(name, "source") == "first.png"
    assert page["source"].is_displayed()
    assert page.run(drop, "label[for=mask]", "white.png") and page.run(name, "mask") == "white.png"
    assert page.run(name, "source") == "first.png"


def test_it_waits_for_a_model_that_is_being_loaded(page, text):
    loading = """const real = window.fetch;
      let refusals = 1;
      window.fetch = (...request) => refusals-- > 0
        ? Promise.resolve(Response.json({error: {message: "the model is still being loaded", code: 503}}, {status: 503}))
        : real(...request);"""
    script = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": loading})
    try:
        page.open(text, None)
        page.wait(lambda: page["start-text"].text == "the model is still being loaded.")
        page.wait(lambda: page["chat"].is_displayed())
        assert not page["start"].is_displayed()
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_the_key_is_asked_for_until_it_is_right(page, serve, tiny_model):
    with serve(tiny_model, "--api-key", "right", "--disable-access-log") as (url, _, _):
        page.open(url, None)
        page.wait(lambda: page["key-dialog"].is_displayed())
        page["key-cancel"].click()
        page.wait(lambda: page["start-again"].is_displayed())
        page["start-again"].send_keys(Keys.ENTER)
        page.wait(lambda: page["key-dialog"].is_displayed())
        page["key"].send_keys("wrong", Keys.ENTER)
        page.wait(lambda: page["key-dialog"].is_displayed() and page["key"].get_attribute("value") == "")
        assert "needs a valid API key" in page["key-reason"].text
        page["key"].send_keys("right", Keys.ENTER)
        page.wait(lambda: page["chat"].is_displayed())
        page.fill(**{"max-tokens": "4"})
        page.say("hello")
        assert [speaker for speaker, _ in page.turns()] == ["You", "Model"] and not page["chat-error"].is_displayed()
        assert page.run("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'


def test_a_chat_is_what_the_api_answers(page, text):
    page.open(text, "chat")
    page.fill(system="Be kind.", temperature="0", **{"max-tokens": "12"})
    messages = [{"role": "system", "content": "Be kind."}]
    for said in ("hello", "<b>again</b>"):
        page.say(said)
        messages.append({"role": "user", "content": said})
        answer = post(text + "/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 12})
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        assert messages[-1]["content"].strip()
        assert page.turns() == [["You" if m["role"] == "user" else "Model", m["content"]] for m in messages[1:]]
        assert page["turns"].get_attribute("aria-busy") == "false"
    assert page.heard("news")[-1] == "The answer is complete."
    page["clear"].click()
    assert page.turns() == [] and page.run("return document.activeElement.id") == "message"


def test_answers_grow_and_can_be_stopped(page, text):
    page.open(text, "chat")
    page.run("""window.lengths = [];
      new MutationObserver(() => window.lengths.push(document.getElementById("turns").textContent.length))
        .observe(document.getElementById("turns"), {childList: true, subtree: true});""")
    page.fill(temperature="0")
    page["message"].send_keys("Tell me a long story.", Keys.SHIFT, Keys.ENTER, Keys.NULL, "Begin.", Keys.ENTER)
    page.wait(lambda: len(page.run("return window.lengths")) > 10)
    page["stop"].click()
    page.wait(lambda: not page["stop"].is_displayed())
    lengths = page.run("return window.lengths")
    assert len(set(lengths)) > 5 and lengths == sorted(lengths)
    assert page.turns()[0] == ["You", "Tell me a long story.\nBegin."] and page.turns()[1][1] != ""
    assert page.all("#turns .hint")[-1].text == "Stopped."
    assert page.run("return document.activeElement.id") == "message"


def test_a_refused_question_goes_back_to_where_it_was_written(page, text):
    page.open(text, "chat")
    page.fill(temperature="1000")
    page.say("hello")
    assert "less_than_equal" in page["chat-error"].text and page["temperature"].get_attribute("aria-invalid") == "true"
    assert page.turns() == [] and page["message"].get_attribute("value") == "hello"
    page.fill(temperature="0", **{"max-tokens": "4"})
    page.say("")
    assert len(page.turns()) == 2 and not page["chat-error"].is_displayed()


def test_reasoning_is_folded_away(page, serve, tiny_model, tmp_path):
    folder = tmp_path / "thinking"
    shutil.copytree(tiny_model, folder)
    # The prompt ends inside a thinking section, so that all of a short answer is reasoning; the hottest temperature makes the
    # random model say something, and without a token that ends it so many that some can be seen.
    # A template that knows of thinking names the closing tag.
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}{# </think> #}<think>\n")
    for name in ("config.json", "generation_config.json"):
        (folder / name).write_text(json.dumps({**json.loads((folder / name).read_text()), "eos_token_id": None}))
    with serve(folder, "--disable-access-log") as (url, _, _):
        page.open(url, "chat")
        page.fill(temperature="100", **{"max-tokens": "64"})
        page.say("hello")
        assert page.turns()[1][1] == ""
        assert not page.all("#turns details .said")[0].is_displayed()
        page.all("#turns summary")[0].send_keys(Keys.ENTER)
        assert page.all("#turns details .said")[0].get_attribute("textContent").strip() != ""


def test_text_is_continued_where_there_is_no_template(page, serve, tiny_model, tmp_path):
    folder = tmp_path / "plain"
    shutil.copytree(tiny_model, folder)
    (folder / "chat_template.jinja").unlink()
    with serve(folder, "--disable-access-log") as (url, _, _):
        page.open(url, "chat")
        assert not page["system"].is_displayed()
        page.fill(temperature="0", **{"max-tokens": "12"})
        page.say("hello")
        answer = post(url + "/v1/completions", {"prompt": "hello", "temperature": 0, "max_tokens": 12})
        assert answer["choices"][0]["text"] != ""
        assert page.turns() == [["You", "hello"], ["Model", answer["choices"][0]["text"]]]


def full_pictures(page, url):
    open_pictures(page, url, n="2")
    page.draw(2)
    page.compare(0, 1)
    for summary in page.all("summary"):
        summary.click()
    page.fill(size="1x1")
    page["draw"].click()
    page.wait(lambda: page["picture-error"].is_displayed())


def full_chat(page, url):
    page.open(url, "chat")
    page.fill(**{"max-tokens": "4"})
    page.say("hello")


@pytest.fixture(params=["pictures", "text"])
def full(page, request):
    """The page with all of its parts to be seen."""
    url = request.getfixturevalue(request.param)
    {"pictures": full_pictures, "text": full_chat}[request.param](page, url)
    return page, url


def test_everything_has_a_name_and_a_place(full):
    page, url = full
    assert len(page.all("h1")) == len(page.all("header")) == len(page.all("main")) == 1
    shown = [control for control in page.all("input, textarea, select, button, a, progress, summary, canvas") if control.is_displayed()]
    assert len(shown) >= 6
    # A placeholder alone is no name: it is gone as soon as something is typed.
    nameless = ["", *{control.get_attribute("placeholder") for control in shown}]
    assert [control.get_attribute("outerHTML") for control in shown if control.accessible_name.strip() in nameless] == []
    assert [image.get_attribute("outerHTML") for image in page.all("img") if image.is_displayed() and not image.get_attribute("alt")] == []
    ids = [element.get_attribute("id") for element in page.all("[id]")]
    assert len(ids) == len(set(ids))
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith((url + "/", "blob:" + url))] == []


def test_every_control_is_reached_by_tab(full):
    page, _ = full
    wanted = {control.id for control in page.all("input:not([type=radio]), textarea, select, button, a, summary")
              if control.is_displayed() and control.is_enabled()}
    page.run("document.activeElement.blur(); scrollTo(0, 0)")
    reached = set()
    for _ in range(len(wanted) + 20):
        page.press(Keys.TAB)
        reached.add(page.driver.switch_to.active_element.id)
        outline = page.run("const on = document.activeElement; return on === document.body || getComputedStyle(on).outlineWidth")
        assert outline in (True, "3px")
    assert wanted <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_both_schemes_and_at_every_width(full, scheme):
    page, _ = full
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    assert (page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 25)") == (scheme == "dark")
    for width in (320, 768, 1280):
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.run(CONTRASTS) == []
