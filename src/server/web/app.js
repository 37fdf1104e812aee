// The page's beginning: asks for a key where one is wanted, asks what the model can do, and opens the parts that fit.
import { call, setKeyPrompt } from "./api.js";
import { openChat } from "./chat.js";
import { announce, byId } from "./dom.js";
import { openPictures } from "./pictures.js";

const LOADING_PAUSE_MS = 2000;

function askForKey(reason) {
  const dialog = byId("key-dialog");
  byId("key-reason").textContent = reason;
  byId("key").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}

function setUpKeyDialog() {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("key-dialog").close(byId("key").value);
    byId("key").value = "";
  });
  byId("key-cancel").addEventListener("click", () => byId("key-dialog").close(""));
  setKeyPrompt(askForKey);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function servedModel() {
  for (;;) {
    try {
      const response = await call("v1/models");
      return (await response.json()).data[0];
    } catch (error) {
      if (error.status !== 503) throw error;
      byId("start-text").textContent = `${error.message}.`;
      await pause(LOADING_PAUSE_MS);
    }
  }
}

// "transformer auto_round, vae gguf": the components that are quantized, and how.
function quantizationText(quantization) {
  const parts = Object.entries(quantization ?? {}).filter(([, format]) => format && format !== "none");
  return parts.map(([component, format]) => `${component} ${format}`).join(", ");
}

function showModel(model) {
  const name = model.id.split("/").filter(Boolean).pop() ?? model.id;
  const quantized = quantizationText(model.quantization);
  byId("model").textContent = quantized ? `${name}, quantized: ${quantized}` : name;
  document.title = `${name} - Quaver`;
}

function openParts(model) {
  const can = new Set(model.capabilities);
  const parts = [
    [can.has("image_generation"), () => openPictures({ canEdit: can.has("image_edit"), defaults: model.image_generation })],
    [can.has("chat"), () => openChat("chat")],
    [can.has("completions") && !can.has("chat"), () => openChat("completions")],
  ].filter(([fits]) => fits);
  if (parts.length === 0) {
    byId("start-text").textContent = `This page has nothing for what this model can do: ${model.capabilities.join(", ")}.`;
    return;
  }
  byId("start").hidden = true;
  for (const [, open] of parts) open();
}

async function start() {
  byId("start-again").hidden = true;
  byId("start-text").textContent = "Asking the server what its model can do.";
  try {
    const model = await servedModel();
    showModel(model);
    openParts(model);
    announce("Ready.");
  } catch (error) {
    byId("start-text").textContent = `Error: ${error.message}`;
    byId("start-again").hidden = false;
  }
}

setUpKeyDialog();
byId("start-again").addEventListener("click", start);
start();
