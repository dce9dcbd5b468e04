"use strict";
// The decisions of the run picked: a table to filter, and forecasts against outcomes.
(() => {
  const { data, color, el, short, clock } = page;
  const perPage = 15;
  const want = { kind: "", tenant: "", state: "", text: "" };
  let first = 0, shownRun = null, plot = null;

  const tenantOf = (run, p) => run.tenants[p.t] ?? "";
  const matches = run => p => (!want.kind || p.k === want.kind) && (!want.tenant || tenantOf(run, p) === want.tenant) && (!want.state || (want.state === "applied") === !!p.a) &&
    (!want.text || `${p.r} ${p.x ?? ""} ${tenantOf(run, p)} ${p.k}`.toLowerCase().includes(want.text));

  function select(name, key, values, draw) {
    const s = el("select", {}, el("option", { value: "", textContent: "all" }), ...values.map(v => el("option", { value: v, textContent: v, selected: want[key] === v })));
    s.onchange = () => { want[key] = s.value; first = 0; draw(); };
    return el("label", {}, name, s);
  }

  function drawTable(box, run, list) {
    const rows = list.slice(first, first + perPage).map(p => [clock(p.s), p.k, tenantOf(run, p), p.f === undefined ? "" : short(p.f), p.o === undefined ? "" : short(p.o), p.a ? "applied" : "refused",
      p.r + (p.x ? ` (refused: ${p.x})` : "")]);
    const back = el("button", { type: "button", textContent: "earlier", disabled: first === 0 }), on = el("button", { type: "button", textContent: "later", disabled: first + perPage >= list.length });
    const again = (to, which) => { first = to; drawTable(box, run, list); box.querySelectorAll(".pager button")[which].focus(); };
    back.onclick = () => again(Math.max(0, first - perPage), 0);
    on.onclick = () => again(first + perPage, 1);
    const left = run.decided - run.plans.length;
    const table = page.table("Decisions", [["at", true], ["kind"], ["tenant"], ["forecast good tokens", true, "", "forecast"], ["outcome", true, "", "outcome"], ["state"], ["reason", false, "reason"]], rows);
    table.classList.add("whole");
    box.replaceChildren(table,
      el("div", { className: "pager" }, back, on, el("span", { role: "status", textContent: list.length ? `${first + 1} to ${Math.min(list.length, first + perPage)} of ${short(list.length)}` : "none matches" }),
        left > 0 ? el("span", { className: "soft", textContent: `${short(left)} more, forecast to matter less, are in plans.csv` }) : ""));
  }

  // Forecast against outcome, a colour for each of the commonest kinds, the diagonal where both agree.
  function drawScatter(parent, list) {
    plot?.destroy();
    plot = null;
    parent.replaceChildren();
    const both = list.filter(p => p.f !== undefined && p.o !== undefined).sort((a, b) => a.f - b.f);
    if (both.length < 2) return;
    const kinds = [...new Set(both.map(p => p.k))].sort((a, b) => both.filter(p => p.k === b).length - both.filter(p => p.k === a).length || (a < b ? -1 : 1));
    const hold = el("div", { role: "img", "aria-label": "Outcome over forecast of decisions; the table below has its numbers" }), read = el("span", { className: "read", "aria-hidden": "true" });
    const colours = 7, tone = k => kinds.indexOf(k) < colours ? "t" + kinds.indexOf(k) : "t-other";
    const chip = (v, name) => {
      const s = el("span", { className: "swatch" });
      s.style.background = `var(--${v})`;
      s.style.borderRadius = "50%";
      return el("span", { className: "chip" }, s, name);
    };
    const legend = el("div", { className: "lines" }, ...kinds.slice(0, colours).map(k => chip(tone(k), k)), kinds.length > colours ? chip("t-other", "other kinds") : "");
    parent.append(el("figure", { className: "card" }, el("figcaption", { className: "with-read" }, el("span", {}, "Good tokens ", el("small", { textContent: "outcome over forecast; on the dashed line both agree" })), read), hold, legend));
    const all = both.flatMap(p => [p.f, p.o]).sort((a, b) => a - b), low = Math.min(0, all[0]), high = Math.max(1, all[all.length - 1]), pad = (high - low) * .04;
    const xs = both.map((p, i) => p.f + i * 1e-9 * (high - low)); // x must rise
    const axis = (label, size) => ({ label, size, labelSize: 18, labelFont: "12px system-ui, sans-serif", font: "11px system-ui, sans-serif", stroke: color("soft"), grid: { stroke: color("grid"), width: 1 },
      ticks: { stroke: color("grid"), width: 1 }, values: (_, s) => s.map(v => Math.abs(v) >= 1000 ? short(v / 1000) + "k" : short(v)) });
    plot = new uPlot({
      width: Math.max(220, hold.clientWidth), height: innerWidth < 640 ? 260 : 340, legend: { show: false },
      cursor: { drag: { x: false, y: false }, x: false, y: false, points: { size: 9 }, dataIdx: (u, k, i) => u.data[k][i] == null ? null : i },
      scales: { x: { time: false, range: [low - pad, high + pad] }, y: { range: [low - pad, high + pad] } }, axes: [axis("forecast", 34), axis("outcome", 52)],
      series: [{}, ...kinds.map(k => ({ label: k, paths: () => null, points: { show: true, size: 6, width: 0, fill: color(tone(k)) } }))],
      hooks: {
        drawClear: [u => {
          const c = u.ctx, dpr = devicePixelRatio;
          c.save();
          c.strokeStyle = color("soft");
          c.lineWidth = dpr;
          c.setLineDash([5 * dpr, 4 * dpr]);
          c.beginPath();
          for (const v of [low, high]) c.lineTo(u.valToPos(v, "x", true), u.valToPos(v, "y", true));
          c.stroke();
          c.restore();
        }],
        setCursor: [u => {
          const p = u.cursor.idx == null ? null : both[u.cursor.idx];
          read.textContent = p ? `${p.k} at ${clock(p.s)}: forecast ${short(p.f)}, outcome ${short(p.o)}` : "";
        }],
      },
    }, [xs, ...kinds.map(k => both.map(p => p.k === k ? p.o : null))], hold);
  }

  // All decisions of a run by kind, also those that the page doesn't hold.
  const kindTable = run => page.table("By kind; forecast and outcome in good tokens, of those that have both", [["kind"], ["decisions", true], ["applied", true], ["with outcome", true], ["forecast", true], ["outcome", true]],
    run.kinds.map(k => [k.kind, short(k.decided), short(k.applied), short(k.scored), k.scored ? short(Math.round(k.forecast)) : "", k.scored ? short(Math.round(k.outcome)) : ""]));

  page.drawers.push(() => {
    const box = document.getElementById("plans"), run = page.runOf(page.pick.policy);
    if (!box) return;
    if (run !== shownRun) {
      shownRun = run;
      first = 0;
      Object.assign(want, { kind: "", tenant: "", state: "", text: "" });
    }
    if (!run?.plans?.length) {
      box.replaceChildren(el("p", { className: "soft", textContent: `${page.pick.policy} has no decisions in this run.` }));
      return;
    }
    const table = el("div"), scatter = el("div"), find = el("input", { type: "search", value: want.text, placeholder: "words of the reason" });
    const draw = () => {
      const list = run.plans.filter(matches(run));
      drawTable(table, run, list);
      drawScatter(scatter, list);
    };
    find.oninput = () => { want.text = find.value.toLowerCase(); first = 0; draw(); };
    const distinct = of => [...new Set(run.plans.map(of))].filter(v => v !== "").sort();
    box.replaceChildren(
      el("p", { className: "soft", textContent: `Decisions of ${page.pick.policy} on ${data.scenarios[page.pick.scenario].name}, ${short(run.decided)} in all.` }),
      el("div", { className: "filters" }, select("Kind", "kind", distinct(p => p.k), draw), select("Tenant", "tenant", distinct(p => tenantOf(run, p)), draw),
        select("State", "state", ["applied", "refused"], draw), el("label", {}, "Find", find)), el("div", { className: "plan" }, scatter, kindTable(run)), table);
    draw();
  });
  page.start();
})();
