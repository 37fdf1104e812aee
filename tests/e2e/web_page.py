"""The web page in a headless Chromium, as its tests drive it and look at it."""
import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE_S = 60

# Keeps what the page said, since a poll from outside would miss most of it.
LISTEN = """
window.heard = {news: [], progress: []};
for (const [name, id] of [["news", "news"], ["progress", "progress-text"]])
  new MutationObserver(() => window.heard[name].push(document.getElementById(id).textContent))
    .observe(document.getElementById(id), {childList: true});
"""

# WCAG 2.2, contrast ratio: of each text that is shown against the nearest ground that is not transparent.
CONTRASTS = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const rgba = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return {r, g, b, a}; };
const luminance = ({r, g, b}) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const color = rgba(getComputedStyle(node).backgroundColor);
    if (color.a === 1) return color;
  }
  return {r: 255, g: 255, b: 255};
};
const low = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  const part = node.placeholder && !node.value ? "::placeholder" : null;
  if (!(own || part || node.value) || node.disabled || !node.checkVisibility()) continue;
  const [a, b] = [luminance(rgba(getComputedStyle(node, part).color)), luminance(ground(node))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) low.push(`${node.tagName}#${node.id} "${node.textContent.slice(0, 20)}": ${ratio.toFixed(2)}`);
}
return low;
"""


class Page:
    """The page in one tab; elements by their ids."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, part):
        self.driver.get(url + "/")
        self.driver.execute_script(LISTEN)
        if part:
            self.wait(lambda: self[part].is_displayed())
        return self

    def __getitem__(self, name):
        return self.driver.find_element(By.ID, name)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition):
        return WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.05).until(lambda _: condition())

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, name):
        for _ in range(60):
            self.press(Keys.TAB)
            if self.run("return document.activeElement.id") == name:
                return
        raise AssertionError(f"Tab never comes to #{name}")

    def fill(self, **values):
        for name, value in values.items():
            self[name].clear()
            self[name].send_keys(value)

    def heard(self, name):
        return self.run("return window.heard[arguments[0]]", name)

    def items(self):
        return self.all("#gallery-list > li")

    def wait_until_idle(self):
        self.wait(lambda: not self["cancel"].is_displayed())

    # Draws with the form as it is, and waits for `count` pictures more in the gallery.
    def draw(self, count=1):
        before = len(self.items())
        self["draw"].click()
        self.wait(lambda: len(self.items()) == before + count)
        self.wait_until_idle()

    def item_button(self, number, text):
        return self.items()[number].find_element(By.XPATH, f".//*[normalize-space(text())='{text}']")

    def compare(self, *numbers):
        for number in numbers:
            self.items()[number].find_element(By.CSS_SELECTOR, "[type=checkbox]").click()
        self.wait(lambda: self["compare"].is_displayed())
        return self.wait(lambda: self["compare-figures"].text)

    def turns(self):
        """(speaker, what was said) of the conversation."""
        return self.run("return [...document.querySelectorAll('#turns article')].map("
                        "(turn) => [turn.querySelector('h3').textContent, turn.querySelector(':scope > .said').textContent])")

    def say(self, text):
        self["message"].send_keys(text, Keys.ENTER)
        self.wait(lambda: not self["stop"].is_displayed())


def headless_chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # Without a sandbox, since that one needs a user other than root.
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
