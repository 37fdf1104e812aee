// Chat with a model of text: the conversation, streamed answers, stopping, and plain continuation where there is no template.
import { ApiError, call, events, jsonPost } from "./api.js";
import { announce, byId, clearError, hideButton, make, showError } from "./dom.js";

// The two ways to ask: what goes out, and what an event brings.
const KINDS = {
  chat: {
    path: "v1/chat/completions",
    question: (turns) => ({ messages: [...systemMessage(), ...turns] }),
    piece: ({ delta }) => ({ content: delta?.content, reasoning: delta?.reasoning ?? delta?.reasoning_content }),
  },
  completions: {
    path: "v1/completions",
    question: (turns) => ({ prompt: turns.at(-1).content }),
    piece: ({ text }) => ({ content: text }),
  },
};

const form = byId("chat-form");
const message = byId("message");

let kind = KINDS.chat;
let turns = []; // {role, content}, as the API has them
let cancel = null; // of the answer under way; null when there is none

function systemMessage() {
  const content = byId("system").value;
  return content.trim() ? [{ role: "system", content }] : [];
}

function numberIn(id, name) {
  const { value } = byId(id);
  return value === "" ? {} : { [name]: Number(value) };
}

function showTurn(speaker, text) {
  const content = make("p", { class: "said" }, text);
  const turn = make("article", { "aria-label": speaker }, make("h3", {}, speaker), content);
  byId("turns").append(turn);
  return { turn, content };
}

// An answer that grows; its reasoning stands before it, folded.
function answerView() {
  const { turn, content } = showTurn("Model", "");
  const thoughts = make("p", { class: "said" });
  const folded = make("details", {}, make("summary", {}, "Reasoning"), thoughts);
  return {
    add(piece) {
      const follows = form.getBoundingClientRect().bottom <= window.innerHeight + 1; // else the user reads further up
      if (piece.reasoning) {
        if (!folded.isConnected) content.before(folded);
        thoughts.append(piece.reasoning);
      }
      if (piece.content) content.append(piece.content);
      if (follows) form.scrollIntoView({ block: "nearest" });
    },
    note: (text) => turn.append(make("p", { class: "hint" }, text)),
    text: () => content.textContent,
    isEmpty: () => content.textContent === "" && thoughts.textContent === "",
    remove: () => turn.remove(),
  };
}

async function stream(view) {
  const settings = { ...numberIn("temperature", "temperature"), ...numberIn("max-tokens", "max_tokens") };
  const response = await call(kind.path, jsonPost({ ...kind.question(turns), ...settings, stream: true }, cancel.signal));
  for await (const event of events(response)) {
    const choice = event.choices?.[0];
    if (!choice) continue;
    view.add(kind.piece(choice));
    if (choice.finish_reason === "length") view.note("Cut off at the longest length.");
  }
}

function setBusy(busy) {
  byId("turns").setAttribute("aria-busy", String(busy));
  byId("send").setAttribute("aria-disabled", String(busy));
  byId("clear").disabled = busy;
  if (busy) byId("stop").hidden = false;
  else hideButton(byId("stop"), message);
}

// What was said stays; a question without any answer goes back to where it was written.
function endBadly(error, view, question) {
  if (view.isEmpty()) {
    view.remove();
    question.turn.remove();
    const { content } = turns.pop();
    if (message.value === "") message.value = content;
  } else {
    turns.push({ role: "assistant", content: view.text() });
    view.note(error.name === "AbortError" ? "Stopped." : "Ended by an error.");
  }
  if (error.name === "AbortError") return announce("Stopped.");
  if (!(error instanceof ApiError)) console.error(error);
  const control = { temperature: byId("temperature"), max_tokens: byId("max-tokens") }[error.field];
  showError(byId("chat-error"), error, control);
}

async function send() {
  if (cancel) return;
  clearError(byId("chat-error"), byId("chat-settings"));
  cancel = new AbortController();
  turns.push({ role: "user", content: message.value });
  const question = showTurn("You", message.value);
  message.value = "";
  const view = answerView();
  setBusy(true);
  announce("The model answers.");
  try {
    await stream(view);
    turns.push({ role: "assistant", content: view.text() });
    announce("The answer is complete.");
  } catch (error) {
    endBadly(error, view, question);
  } finally {
    cancel = null;
    setBusy(false);
  }
}

function clear() {
  turns = [];
  byId("turns").replaceChildren();
  clearError(byId("chat-error"), byId("chat-settings"));
  announce("The conversation is cleared.");
  message.focus();
}

function sendOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
}

export function openChat(name) {
  kind = KINDS[name];
  byId("chat").hidden = false;
  byId("system-field").hidden = name !== "chat";
  byId("chat-title").textContent = name === "chat" ? "Chat" : "Text, continued (this model has no chat template)";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (byId("chat-settings").reportValidity()) send();
  });
  byId("chat-settings").addEventListener("submit", (event) => event.preventDefault());
  message.addEventListener("keydown", sendOnEnter);
  byId("stop").addEventListener("click", () => cancel?.abort());
  byId("clear").addEventListener("click", clear);
}
