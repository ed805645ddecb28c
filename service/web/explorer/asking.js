// Asks the service: for the beginning of an answer, and for a picture of what a body holds.

import { ask } from "./key.js";
import { headerEnd } from "./safetensors.js";

const BEGINNING = 1 << 16;
export const AGAIN_MS = 1000;
const MOST_TIMES = 4;

// How a request is made: a body makes it a POST.
function wanted(body, signal, headers = {}) {
  if (!body) return { headers, signal };
  return { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
}

// The beginning of a safetensors answer, as `{buffer}`, or `{problem}`: what the service says where it refuses.
export async function beginning(target, body, signal, most = BEGINNING) {
  const reply = await patiently(() => ask(target, wanted(body, signal, { Range: `bytes=0-${most - 1}` })));
  if (!reply.ok) return { problem: await problemOf(reply) };
  const buffer = await firstBytes(reply, most);
  // A long header, such as one of many positions, is read again whole, with room for the rows.
  const end = headerEnd(buffer);
  return end > buffer.byteLength ? beginning(target, body, signal, end + BEGINNING) : { buffer };
}

// A picture as an address inside this page; whoever asked gives it back with URL.revokeObjectURL.
export async function pictured(target, body, signal) {
  const reply = await patiently(() => ask(target, wanted(body, signal)));
  return reply.ok ? URL.createObjectURL(await reply.blob()) : "";
}

// A service whose memory is taken at the moment says so with 503; it is asked a few times more.
async function patiently(question) {
  for (let times = 1; ; times += 1) {
    const reply = await question();
    if (reply.status !== 503 || times === MOST_TIMES) return reply;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

// No more is read than is shown, however long the answer is.
async function firstBytes(reply, most) {
  const parts = [];
  const reader = reply.body.getReader();
  for (let length = 0; length < most; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
  }
  await reader.cancel();
  return new Blob(parts).arrayBuffer();
}

export async function problemOf(reply) {
  try {
    return await reply.json();
  } catch {
    return { detail: `The service answered with status ${reply.status}.` };
  }
}
