"use strict";
const $ = id => document.getElementById(id);
const refreshMs = 2000;
const key = () => $("key").value.trim();
const headers = () => key() ? { Authorization: "Bearer " + key() } : {};

async function get(path) {
  const r = await fetch(path, { headers: headers() });
  const body = await r.json();
  if (!r.ok) throw new Error(body.error ? body.error.message : r.statusText);
  return body;
}
function el(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}
function table(target, columns, rows) {
  const head = el("tr");
  for (const [name, , numeric] of columns) head.append(el("th", name, numeric ? "n" : ""));
  const lines = rows.map(row => {
    const tr = el("tr");
    for (const [, value, numeric] of columns) tr.append(el("td", value(row), numeric ? "n" : ""));
    return tr;
  });
  if (!rows.length) { const tr = el("tr"), td = el("td", "none yet"); td.colSpan = columns.length; tr.append(td); lines.push(tr); }
  target.replaceChildren(head, ...lines);
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return n.toFixed(i && n < 100 ? 1 : 0) + " " + units[i];
}
function device(d) {
  const box = el("div", undefined, "device"), line = el("p"), total = d.device.memoryBytes, held = total - d.freeBytes;
  line.append(el("strong", d.device.id), el("small", `${bytes(held)} of ${bytes(total)}, busy ${d.busyPct.toFixed(0)} %`));
  const meter = el("meter");
  meter.max = total; meter.value = held; meter.setAttribute("aria-label", "memory of " + d.device.id);
  const classes = Object.entries(d.heldBytes || {}).filter(([, n]) => n).map(([c, n]) => c + " " + bytes(n)).join(", ");
  box.append(line, meter, el("small", classes || "nothing held"));
  return box;
}
function choices(names) {
  const old = $("tenant").value;
  if (names.join() === [...$("tenant").options].map(o => o.value).join()) return;
  $("tenant").replaceChildren(...names.map(n => new Option(n, n)));
  if (names.includes(old)) $("tenant").value = old;
}
async function refresh() {
  try {
    choices((await get("v1/models")).data.map(m => m.id));
    const [t, d, s, r] = await Promise.all(["tenants", "devices", "slices", "requests"].map(p => get("admin/v1/" + p)));
    table($("tenants"), [["name", x => x.spec.id], ["model", x => x.spec.model], ["state", x => x.reason ? x.state + ": " + x.reason : x.state],
      ["running", x => x.running, 1], ["waiting", x => x.waiting, 1], ["requests", x => x.sla.requests, 1], ["tokens out", x => x.sla.completionTokens, 1],
      ["TTFT p50", x => x.sla.ttftMs.p50.toFixed(0) + " ms", 1], ["violations", x => x.sla.violationsPct.toFixed(1) + " %", 1]], t.tenants);
    $("devices").replaceChildren(...d.devices.map(device));
    table($("slices"), [["tenant", x => x.tenant], ["lane", x => x.lane], ["device", x => x.slice.device], ["state", x => x.state], ["steps", x => x.steps, 1],
      ["weights", x => bytes(x.slice.weightBytes), 1], ["KV", x => bytes(x.slice.kvBytes), 1]], s.slices);
    $("status").textContent = `${t.tenants.length} tenants, ${d.devices.length} devices, ${r.requests.length} requests live`;
    $("status").className = "";
  } catch (e) {
    $("status").textContent = e.message;
    $("status").className = "bad";
  }
  setTimeout(refresh, refreshMs);
}
let running = null;
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const p of parts) if (p.startsWith("data: ") && p !== "data: [DONE]") yield JSON.parse(p.slice(6));
  }
}
async function ask() {
  running = new AbortController();
  $("send").disabled = true; $("stop").hidden = false; $("answer").hidden = false;
  $("answer").textContent = ""; $("answer").className = "";
  try {
    const r = await fetch("v1/chat/completions", { method: "POST", signal: running.signal, headers: { "Content-Type": "application/json", ...headers() },
      body: JSON.stringify({ model: $("tenant").value, stream: true, max_tokens: 256, messages: [{ role: "user", content: $("message").value }] }) });
    if (!r.ok) throw new Error((await r.json()).error.message);
    for await (const e of events(r)) {
      if (e.error) throw new Error(e.error.message);
      for (const c of e.choices) $("answer").append(c.delta.content || "");
    }
  } catch (e) {
    if (e.name !== "AbortError") { $("answer").append(" " + e.message); $("answer").className = "bad"; }
  }
  running = null;
  $("send").disabled = false; $("stop").hidden = true;
}
$("chat").addEventListener("submit", e => { e.preventDefault(); ask(); });
$("stop").addEventListener("click", () => running && running.abort());
refresh();
