// The server's API as the page uses it: requests with the key, errors in the server's own words, streams of events.

export class ApiError extends Error {
  // `field`: the field of the request to blame, "" for none. `status`: 0 without an answer.
  constructor(message, { status = 0, field = "" } = {}) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

let key = "";
let askForKey = null;

// `ask` gets the server's sentence and resolves to a key, or to "" when the user will not give one.
export function setKeyPrompt(ask) {
  askForKey = ask;
}

function errorOf(error, status) {
  // "body.size" is the field size.
  const field = (error.param ?? "").replace(/^body\./, "").split(".")[0];
  return new ApiError(error.message, { status, field });
}

async function errorOfResponse(response) {
  const body = await response.json().catch(() => null);
  if (body?.error?.message) return errorOf(body.error, response.status);
  return new ApiError(`the server answered with status ${response.status}`, { status: response.status });
}

async function send(path, init) {
  const headers = new Headers(init.headers);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  try {
    return await fetch(path, { ...init, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server cannot be reached");
  }
}

// The response when it is a good one; asks for a key as often as the server wants another. Throws ApiError, or AbortError
// after a cancel.
export async function call(path, init = {}) {
  for (;;) {
    const response = await send(path, init);
    if (response.ok) return response;
    const error = await errorOfResponse(response);
    if (response.status !== 401) throw error;
    key = await askForKey(error.message);
    if (!key) throw error;
  }
}

export function jsonPost(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

async function nextPiece(reader) {
  try {
    const { done, value } = await reader.read();
    if (!done) return value;
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  throw new ApiError("the connection ended before the answer was complete");
}

// The data of each event as an object, up to [DONE]. Throws the error that an event carries.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    text += await nextPiece(reader);
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const line = block.split("\n").find((each) => each.startsWith("data: "));
      if (!line) continue;
      const data = line.slice("data: ".length);
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw errorOf(event.error, event.error.code);
      yield event;
    }
  }
}
