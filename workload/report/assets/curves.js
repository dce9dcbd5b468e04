"use strict";
// Lines by policy: violations over load, shares of requests over time.
(() => {
  const { data, color, style, el, short } = page;
  const height = () => innerWidth < 640 ? 250 : 300;
  let plots = [];

  const axis = (label, more) => ({ label, labelSize: 18, labelGap: 2, labelFont: "12px system-ui, sans-serif", font: "11px system-ui, sans-serif", stroke: color("soft"),
    grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, ...more });

  // About how wide a chart's plot gets in a parent that has one or two columns.
  const plotWidth = parent => parent.clientWidth / (parent.clientWidth > 980 ? 2 : 1) - 110;

  // The dashed line at the violation rate up to which a load counts as carried.
  function limitLine(u) {
    const y = u.valToPos(data.limitPct, "y", true);
    const { left, width, top, height } = u.bbox;
    if (y < top || y > top + height) return;
    const c = u.ctx, dpr = devicePixelRatio;
    c.save();
    c.strokeStyle = c.fillStyle = color("text");
    c.lineWidth = dpr;
    c.setLineDash([5 * dpr, 4 * dpr]);
    c.beginPath();
    c.moveTo(left, y);
    c.lineTo(left + width, y);
    c.stroke();
    c.font = `600 ${11 * dpr}px system-ui, sans-serif`;
    c.textAlign = "left";
    c.textBaseline = "bottom";
    const text = `${data.limitPct} %`, x = left + 4 * dpr, wide = c.measureText(text).width;
    c.fillStyle = color("card");
    c.fillRect(x - 2 * dpr, y - 16 * dpr, wide + 4 * dpr, 14 * dpr);
    c.fillStyle = color("text");
    c.fillText(text, x, y - 3 * dpr);
    c.restore();
  }

  // A chart of lines: policies, each with its columns [x, y], in a box with a title and a line that says what the pointer is at.
  function chart(parent, title, policies, columns, options) {
    const read = el("span", { className: "read", "aria-hidden": "true" });
    const hold = el("div", { role: "img", "aria-label": `${title}; the table below has its numbers` });
    const box = el("figure", { className: "card" }, el("figcaption", { className: "with-read" }, title, read), hold);
    parent.append(box);
    const lines = policies.map(p => {
      const s = style(p);
      return { label: p.name, stroke: s.color, width: s.width, dash: s.dash.length ? s.dash : undefined, points: { show: false }, spanGaps: true, show: page.shown(p.name) };
    });
    const say = u => {
      const i = u.cursor.idx, at = u.series.findIndex((s, k) => k > 0 && s._focus && s.show);
      read.textContent = at > 0 && i != null ? options.read(u.series[at].label, u.data[0], u.data[at], u.cursor.idxs[at] ?? i) : "";
    };
    plots.push(new uPlot({
      width: Math.max(220, hold.clientWidth), height: height(), legend: { show: false }, focus: { alpha: .25 },
      cursor: { focus: { prox: 24 }, drag: { x: false, y: false }, dataIdx: (u, k, i) => nearest(u.data[k], i), points: { size: 7 } },
      scales: options.scales, axes: options.axes, series: [{}, ...lines],
      hooks: { draw: options.draw ? [options.draw] : [], setCursor: [say], setSeries: [say] },
    }, uPlot.join(columns), hold));
  }

  // The index nearest to i at which there is a value.
  function nearest(values, i) {
    for (let d = 0; d < values.length; d++) {
      if (values[i - d] != null) return i - d;
      if (values[i + d] != null) return i + d;
    }
    return i;
  }

  function drawCurves() {
    const parent = document.getElementById("curve-charts");
    if (!parent) return;
    parent.replaceChildren();
    const whole = document.getElementById("whole").checked || !data.limitPct;
    for (const s of data.scenarios) {
      const policies = data.policies.filter(p => s.of[p.name]?.curve);
      if (!policies.length) continue;
      const curves = policies.map(p => s.of[p.name].curve), loads = curves.flatMap(c => c.load).filter(v => v > 0);
      const low = Math.min(...loads), high = Math.max(...loads), log = high / low > 6;
      chart(parent, s.name, policies, curves.map(c => [c.load, c.pct]), {
        scales: { x: { time: false, distr: log ? 3 : 1, range: log ? [low * .95, high * 1.05] : undefined }, y: { range: [0, whole ? 100 : Math.min(100, 4 * data.limitPct)] } },
        axes: [axis(log ? "load factor (log)" : "load factor", { size: 34, ...(log ? logTicks(low, high, plotWidth(parent)) : {}) }), axis("violations %", { size: 40 })],
        draw: data.limitPct ? limitLine : null,
        read: (name, x, y, i) => `${name}: ${short(y[i])} % at load ${short(x[i])}`,
      });
    }
  }

  // Ticks within every decade as far as there is room for their labels.
  function logTicks(low, high, width) {
    const splits = [], room = width / Math.max(.3, Math.log10(high / low));
    for (let d = Math.floor(Math.log10(low)); d <= Math.log10(high); d++) {
      for (const k of room > 120 ? [1, 2, 5] : room > 60 ? [1, 3] : [1]) if (k * 10 ** d >= low * .95 && k * 10 ** d <= high * 1.05) splits.push(+(k * 10 ** d).toPrecision(2));
    }
    return { splits: () => splits, filter: (_, s) => s, values: (_, s) => s.map(v => v >= 1000 ? v / 1000 + "k" : String(v)) };
  }

  function drawQuantiles() {
    const parent = document.getElementById("quantile-charts"), s = data.scenarios[page.pick.scenario];
    if (!parent || !s) return;
    parent.replaceChildren();
    const policies = data.policies.filter(p => s.of[p.name]?.run?.share);
    for (const [title, key] of [["TTFT", "ttftMs"], ["TPOT", "tpotMs"]]) {
      const columns = policies.map(p => steps(s.of[p.name].run[key], s.of[p.name].run.share)), all = columns.flatMap(c => c[0]);
      if (!all.length) continue;
      const low = Math.min(...all), high = Math.max(...all, low * 2);
      chart(parent, `${title}, ${s.name}`, policies, columns, {
        scales: { x: { time: false, distr: 3, range: [low * .9, high * 1.1] }, y: { range: [0, 100] } },
        axes: [axis("ms (log)", { size: 34, ...logTicks(low, high, plotWidth(parent)) }), axis("requests %", { size: 44 })],
        read: (name, x, y, i) => `${name}: ${short(y[i])} % within ${short(x[i])} ms`,
      });
    }
  }

  // Times that rise, each with the largest share that it holds for; a log axis has no 0.
  function steps(ms, share) {
    const x = [], y = [];
    ms.forEach((v, i) => {
      if (v <= 0) return;
      if (x[x.length - 1] === v) y[y.length - 1] = share[i];
      else { x.push(v); y.push(share[i]); }
    });
    return [x, y];
  }

  page.drawers.push(() => {
    plots.forEach(p => p.destroy());
    plots = [];
    drawCurves();
    drawQuantiles();
  });
  document.getElementById("whole")?.addEventListener("change", page.redraw);
})();
