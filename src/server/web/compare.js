// Comparing two pictures: one over the other with a slider, side by side, and their difference in figures and as a picture.
import { byId } from "./dom.js";

const section = byId("compare");
const VIEWS = ["split", "pair", "difference"];
const PEAK = 255;

let shown = []; // what was chosen last
let pixels = null; // of both pictures, {a, b}; null unless their sizes agree

async function pixelsOf(blob) {
  const bitmap = await createImageBitmap(blob);
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, bitmap.width, bitmap.height);
}

// Over red, green and blue. PSNR = 10 log10(255^2 / mean squared difference), in decibels.
function figuresOf({ a, b }) {
  let sum = 0, squares = 0, most = 0, count = 0;
  for (let i = 0; i < a.data.length; i++) {
    if (i % 4 === 3) continue;
    const difference = Math.abs(a.data[i] - b.data[i]);
    sum += difference;
    squares += difference * difference;
    most = Math.max(most, difference);
    count++;
  }
  return { mean: sum / count, most, psnr: 10 * Math.log10((PEAK * PEAK * count) / squares) };
}

function figuresText({ mean, most, psnr }) {
  if (most === 0) return "identical, pixel for pixel.";
  return `mean difference ${mean.toFixed(2)} of ${PEAK}, largest ${most}, PSNR ${psnr.toFixed(1)} dB.`;
}

function paintDifference() {
  const { a, b } = pixels;
  const canvas = byId("difference");
  canvas.width = a.width;
  canvas.height = a.height;
  const gain = Number(byId("gain").value);
  const out = new ImageData(a.width, a.height);
  for (let i = 0; i < a.data.length; i++) out.data[i] = i % 4 === 3 ? PEAK : gain * Math.abs(a.data[i] - b.data[i]);
  canvas.getContext("2d").putImageData(out, 0, 0);
}

function showView() {
  const view = section.querySelector("[name=compare-view]:checked").value;
  for (const each of VIEWS) byId(`compare-${each}`).hidden = each !== view;
  if (view === "difference") paintDifference();
}

// Pictures of different sizes can stand side by side and nothing else.
function limitViews(comparable) {
  for (const radio of section.querySelectorAll("[name=compare-view]")) {
    radio.disabled = !comparable && radio.value !== "pair";
    if (!comparable) radio.checked = radio.value === "pair";
  }
}

function moveDivider() {
  section.querySelector(".split").style.setProperty("--share", `${byId("compare-share").value}%`);
}

function place(side, picture) {
  for (const image of section.querySelectorAll(`img[data-side=${side}]`)) {
    image.src = picture.url;
    image.alt = `${picture.name}: ${picture.settings.prompt}`;
  }
  section.querySelector(`[data-caption=${side}]`).textContent = `${picture.name}, seed ${picture.settings.seed}`;
}

// Shows the comparison of two pictures, and nothing for fewer.
export async function showComparison(chosen) {
  shown = chosen;
  section.hidden = chosen.length < 2;
  if (section.hidden) return;
  const [first, second] = chosen;
  place("a", first);
  place("b", second);
  const comparable = first.size === second.size;
  const both = comparable ? { a: await pixelsOf(first.blob), b: await pixelsOf(second.blob) } : null;
  if (shown !== chosen) return; // others were chosen meanwhile
  pixels = both;
  limitViews(comparable);
  const text = comparable ? figuresText(figuresOf(pixels)) : `sizes differ, ${first.size} and ${second.size}.`;
  byId("compare-figures").textContent = `${first.name} (left) and ${second.name} (right): ${text}`;
  showView();
}

for (const radio of section.querySelectorAll("[name=compare-view]")) radio.addEventListener("change", showView);
byId("gain").addEventListener("change", paintDifference);
byId("compare-share").addEventListener("input", moveDivider);
moveDivider();
