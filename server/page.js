"use strict";
const $ = id => document.getElementById(id);
const refreshMs = 2000;
let running = null; // what aborts the answer being streamed
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
function table(target, columns, rows, empty) {
  const head = el("tr");
  for (const [name, , numeric] of columns) { const th = el("th", name, numeric ? "n" : ""); th.scope = "col"; head.append(th); }
  const lines = rows.map(row => {
    const tr = el("tr");
    for (const [, value, numeric] of columns) tr.append(el("td", value(row), numeric ? "n" : ""));
    return tr;
  });
  if (!rows.length) { const tr = el("tr"), td = el("td", empty, "soft"); td.colSpan = columns.length; tr.append(td); lines.push(tr); }
  target.replaceChildren(head, ...lines);
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return n.toFixed(i && n < 100 ? 1 : 0) + " " + units[i];
}
function plural(n, one) { return `${n} ${one}${n === 1 ? "" : "s"}`; }
function ms(n) { return n ? n.toFixed(n < 10 ? 1 : 0) + " ms" : "–"; }
function sla(x) {
  const limits = [["TTFT", x.ttftLimitMs], ["TPOT", x.tpotLimitMs]].filter(([, n]) => n).map(([name, n]) => `${name} ${ms(n)}`);
  return limits.join(", ") || "TTFT 5×, TPOT 2× alone";
}
// parts says what a device's memory holds: weights and KV by tenant, the other classes as a whole, and what no slice accounts for.
function parts(d, slices) {
  const list = [], rest = { ...d.heldBytes };
  for (const [name, field] of [["weights", "weightBytes"], ["kv", "kvBytes"]]) {
    for (const x of slices.filter(x => x.slice.device === d.device.id && x.slice[field])) {
      list.push({ name, label: `${x.tenant} ${name === "kv" ? "KV" : name}`, bytes: x.slice[field] });
      rest[name] -= x.slice[field];
    }
  }
  for (const [name, n] of Object.entries(rest)) if (n > 0) list.push({ name, label: name === "kv" || name === "weights" ? "other " + name : name, bytes: n });
  return list;
}
function device(d, slices) {
  const box = el("div", undefined, "device"), line = el("p"), total = d.device.memoryBytes, held = total - d.freeBytes;
  line.append(el("strong", d.device.id), el("small", `${bytes(held)} of ${bytes(total)} held, busy ${d.busyPct.toFixed(0)} %`));
  const bar = el("div", undefined, "bar"), legend = el("ul"), shown = parts(d, slices);
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `memory of ${d.device.id}: ${bytes(held)} of ${bytes(total)} held`);
  for (const p of shown) {
    const piece = el("span", undefined, p.name), item = el("li", `${p.label} ${bytes(p.bytes)}`, p.name);
    piece.style.width = 100 * p.bytes / total + "%";
    piece.title = item.textContent;
    bar.append(piece);
    legend.append(item);
  }
  if (!shown.length) legend.append(el("li", "nothing held"));
  box.append(line, bar, legend);
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
      ["TTFT p50", x => ms(x.sla.ttftMs.p50), 1], ["TPOT p50", x => ms(x.sla.tpotMs.p50), 1], ["SLA", x => sla(x.sla)],
      ["violations", x => x.sla.finished ? x.sla.violationsPct.toFixed(1) + " %" : "–", 1]], t.tenants,
      "None yet. Submit one with: slicer tenant submit NAME --model tiny-story");
    $("devices").replaceChildren(...d.devices.map(x => device(x, s.slices)));
    table($("slices"), [["tenant", x => x.tenant], ["lane", x => x.lane], ["device", x => x.slice.device], ["state", x => x.state], ["steps", x => x.steps, 1],
      ["weights", x => bytes(x.slice.weightBytes), 1], ["KV", x => bytes(x.slice.kvBytes), 1]], s.slices, "None yet: they come with tenants.");
    $("status").textContent = `${plural(t.tenants.length, "tenant")}, ${plural(d.devices.length, "device")}, ${plural(r.requests.length, "request")} live`;
    $("status").className = "";
    $("send").disabled = running !== null || !$("tenant").value;
  } catch (e) {
    $("status").textContent = e instanceof TypeError ? "The node does not answer; trying again." : e.message; // fetch fails with TypeError
    $("status").className = "bad";
  }
  setTimeout(refresh, refreshMs);
}
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
  $("answer").textContent = ""; $("answer").className = ""; $("answer").setAttribute("aria-busy", "true");
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
  $("answer").removeAttribute("aria-busy");
  $("send").disabled = false; $("stop").hidden = true;
  if (document.activeElement === document.body) $("send").focus();
}
$("chat").addEventListener("submit", e => { e.preventDefault(); ask(); });
$("message").addEventListener("keydown", e => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); if (!$("send").disabled) $("chat").requestSubmit(); }
});
$("stop").addEventListener("click", () => running && running.abort());
refresh();
