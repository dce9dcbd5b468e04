"use strict";
// What all charts share: the data, colours of the scheme in force, and the buttons that single out policies.
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const color = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  const dashes = { peer1: [], peer2: [8, 3], peer3: [3, 3], peer4: [10, 3, 2, 3], peer5: [], peer6: [6, 2], peer7: [2, 2], peer8: [12, 4], bound1: [6, 5], bound2: [2, 4] };
  const style = p => ({ color: color("c-" + p.class), dash: dashes[p.class] || [], width: p.role === "subject" ? 3 : p.role === "baseline" ? 2.25 : 1.5 });

  function el(tag, props = {}, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(props)) k.startsWith("aria-") || k === "role" ? e.setAttribute(k, v) : e[k] = v;
    e.append(...children);
    return e;
  }

  // A number with few digits, as axes and read-outs show it.
  function short(v) {
    if (v == null || !isFinite(v)) return "-";
    const a = Math.abs(v), digits = a >= 100 || Number.isInteger(v) ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : 3;
    return v.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: digits, useGrouping: "min2" }).replaceAll(",", "\u202f");
  }
  const clock = s => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;

  // A table in a box that scrolls. Columns are [name, is it a number, class, name within a cell on phones]; cells are text. Roles are said because phones
  // stack some tables' cells, which hides from screen readers what they are.
  function table(title, columns, rows) {
    const head = el("tr", { role: "row" }, ...columns.map(([name, number]) => el("th", { scope: "col", role: "columnheader", className: number ? "n" : "", textContent: name })));
    const body = rows.map(r => el("tr", { role: "row" }, ...r.map((v, i) => {
      const [, number, kind, within] = columns[i], cell = el("td", { role: "cell", className: number ? "n" : kind || "", textContent: v });
      if (within) cell.dataset.name = within;
      return cell;
    })));
    return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": title },
      el("table", { role: "table" }, el("caption", {}, el("div", { textContent: title })), el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, ...body)));
  }

  // Charts are drawn again when the scheme, the width or what is singled out changes.
  const drawers = [];
  const redraw = () => drawers.forEach(f => f());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = innerWidth, due = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's bars come and go
    width = innerWidth;
    cancelAnimationFrame(due);
    due = requestAnimationFrame(redraw);
  });

  const alone = new Set(); // names of the policies singled out; empty: all
  const shown = name => alone.size === 0 || alone.has(name);
  const svg = (tag, attributes) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };

  function sample(p) {
    const s = style(p), box = svg("svg", { width: 30, height: 10, "aria-hidden": "true" });
    box.append(svg("line", { x1: 0, x2: 30, y1: 5, y2: 5, stroke: s.color, "stroke-width": s.width, "stroke-dasharray": s.dash.join(" ") }));
    return box;
  }

  function drawLegends() {
    for (const box of document.querySelectorAll("[data-lines]")) {
      const at = [...box.children].indexOf(document.activeElement);
      box.replaceChildren(...data.policies.map(p => {
        const b = el("button", { type: "button", "aria-pressed": alone.has(p.name) }, sample(p), p.name + (p.role === "bound" ? " (bound)" : ""));
        b.onclick = () => {
          alone.delete(p.name) || alone.add(p.name);
          redraw();
        };
        return b;
      }));
      if (at >= 0) box.children[at].focus();
    }
  }
  drawers.push(drawLegends);

  // The scenario and the two policies whose runs are shown.
  const pick = { scenario: 0, policy: "", other: "" };
  const runOf = name => data.scenarios[pick.scenario]?.of[name]?.run;
  const start = () => {
    const box = id => document.getElementById(id);
    const fill = (select, names, chosen) => select.replaceChildren(...names.map(([value, text]) => el("option", { value, textContent: text, selected: value === chosen })));
    const choose = () => {
      const names = data.policies.map(p => p.name).filter(runOf);
      const role = r => data.policies.find(p => p.role === r && runOf(p.name))?.name;
      if (!names.includes(pick.policy)) pick.policy = role("subject") || names[0] || "";
      if (pick.other !== "" && !names.includes(pick.other) || pick.fresh !== false) pick.other = [role("baseline"), ...names, ""].find(n => n !== undefined && n !== pick.policy);
      pick.fresh = false;
      fill(box("policy"), names.map(n => [n, n]), pick.policy);
      fill(box("other"), [["", "none"], ...names.map(n => [n, n])], pick.other);
    };
    if (box("picks")) {
      const has = data.scenarios.map((s, i) => [i, s.name]).filter(([i]) => Object.values(data.scenarios[i].of).some(o => o.run));
      pick.scenario = has.length ? has[0][0] : 0;
      fill(box("scenario"), has.map(([i, n]) => [String(i), n]), String(pick.scenario));
      box("scenario").onchange = e => { pick.scenario = Number(e.target.value); choose(); redraw(); };
      box("policy").onchange = e => { pick.policy = e.target.value; redraw(); };
      box("other").onchange = e => { pick.other = e.target.value; redraw(); };
      choose();
    }
    redraw();
  };

  // The runs picked, one or two: [policy, run].
  const picked = () => [pick.policy, pick.other].filter((n, i, a) => n && a.indexOf(n) === i && runOf(n)).map(n => [n, runOf(n)]);
  return { data, color, style, el, short, clock, table, drawers, redraw, shown, pick, runOf, picked, start };
})();
