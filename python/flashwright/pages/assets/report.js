"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const modes = ["auto", "light", "dark"];
  let mode = "auto";
  let draw = () => {};

  // Storage is refused for local files by some browsers: the choice then lasts as long as the page.
  const stored = {
    get: () => { try { return localStorage.getItem("flashwright-theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("flashwright-theme", value); } catch { /* it lasts as long as the page */ } },
  };

  function setTheme(next) {
    mode = modes.includes(next) ? next : "auto";
    root.dataset.theme = mode === "auto" ? (system.matches ? "dark" : "light") : mode;
    button.textContent = `Theme: ${mode}`;
    draw();
  }

  button.addEventListener("click", () => {
    const next = modes[(modes.indexOf(mode) + 1) % modes.length];
    stored.set(next);
    setTheme(next);
  });
  system.addEventListener("change", () => setTheme(mode));
  setTheme(stored.get());

  // Long tables are folded where there is little room; whoever opens one keeps it open.
  if (window.innerWidth < 576) document.querySelectorAll("details.long").forEach((table) => { table.open = false; });

  const holder = document.getElementById("figures");
  if (!holder) return;
  const figures = JSON.parse(holder.textContent);

  function themed(value, style) {
    if (typeof value === "string") return value.startsWith("@") ? style.getPropertyValue(`--${value.slice(1)}`).trim() : value;
    if (Array.isArray(value)) return typeof value.at(-1) === "number" ? value : value.map((item) => themed(item, style));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, style)]));
    return value;
  }

  function axis(own, style, phone) {
    return {
      gridcolor: "@grid", linecolor: "@line", zerolinecolor: "@line", tickcolor: "@line", ticks: "outside", ticklen: 4,
      automargin: true, nticks: phone ? 5 : 10, ...own, title: { standoff: 10, font: { color: "@muted", size: 13 }, ...(own.title || {}) },
    };
  }

  const NARROW = 560;
  const MOST_BARS = 12;
  const LINE_PX = 15;

  // In a narrow window names beside bars would leave no room for them: they stand above, with the
  // value, and bars that stood upright lie down.
  function layDown(figure, width) {
    const bars = figure.data.length > 0 && figure.data.every((trace) => trace.type === "bar");
    const flat = bars && figure.data.every((trace) => trace.orientation === "h");
    const names = bars ? [...new Set(figure.data.flatMap((trace) => (flat ? trace.y : trace.x)))] : [];
    const own = figure.layout;
    if (names.length === 0 || names.some((name) => typeof name !== "string")) return figure;
    if (!flat && (own.shapes || names.length > MOST_BARS || figure.data.some((trace) => trace.orientation === "h"))) return figure;
    const [along, across] = flat ? ["xaxis", "yaxis"] : ["yaxis", "xaxis"];
    const said = new Map(names.map((name) => [name, name.replaceAll("<br>", ", ")]));
    const others = [];
    for (const note of own.annotations || []) {
      const name = flat ? note.y : note.x;
      if (said.has(name) && note.text) said.set(name, `${said.get(name)}: ${note.text.replaceAll("<br>", ", ")}`);
      else others.push(note);
    }
    const most = Math.max(20, Math.floor((width - 30) / 6.4));
    const lines = new Map([...said].map(([name, text]) => [name, folded(text, most)]));
    const tallest = Math.max(...[...lines.values()].map((text) => text.split("<br>").length));
    const bar = own.barmode === "group" ? 14 * figure.data.length : 18;
    const band = bar + LINE_PX * tallest + 14;
    const above = [...lines].map(([name, text]) => ({
      xref: "paper", x: 0, xanchor: "left", y: name, yanchor: "bottom", yshift: bar / 2 + 1, text, showarrow: false, align: "left", font: { size: 12 }, bgcolor: "@card", borderpad: 0,
    }));
    const { range, ...scale } = own[along] || {};
    const ends = own.meta && own.meta.phoneRange ? { range: [...own.meta.phoneRange] } : {};
    for (const line of ends.range ? own.shapes || [] : []) {
      const end = scale.type === "log" ? Math.log10(line.x1) : line.x1;
      if (end > ends.range[1]) ends.range[1] = ends.range[0] + (end - ends.range[0]) * 1.02;
    }
    // Room for what stands above the first bar.
    const places = { range: [names.length - 0.5, -0.5 - (LINE_PX * tallest) / band / 2] };
    return {
      data: flat ? figure.data : figure.data.map((trace) => ({ ...trace, orientation: "h", x: trace.y, y: trace.x, hovertemplate: (trace.hovertemplate || "").replaceAll("%{y", "%{#").replaceAll("%{x", "%{y").replaceAll("%{#", "%{x") || undefined })),
      layout: {
        ...own, xaxis: { ...scale, ...ends },
        yaxis: { type: "category", categoryorder: "array", categoryarray: names, showgrid: false, ticks: "", showticklabels: false, ...places },
        annotations: [...others, ...above], bargap: 1 - bar / band, margin: { l: 8, r: 12, t: 8, b: 8 },
      },
      height: names.length * band + 96,
    };
  }

  function folded(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const begun = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (begun.length <= most || !lines.at(-1)) lines[lines.length - 1] = begun;
      else lines.push(word);
    }
    return lines.join("<br>");
  }

  function overlap(a, b, room) {
    return Math.min(a.right, b.right) + room > Math.max(a.left, b.left) && Math.min(a.bottom, b.bottom) - 3 > Math.max(a.top, b.top);
  }

  // How wide labels are is known when they are drawn: every second one goes, or a text moves down,
  // until none lies over another.
  async function apart(place, data, layout, config) {
    for (let round = 0; round < 5; round += 1) {
      const ticks = [...place.querySelectorAll(".xtick text")].map((text) => text.getBoundingClientRect());
      const texts = [...place.querySelectorAll(".annotation")].map((text) => [Number(text.dataset.index), text.getBoundingClientRect()]);
      const crowded = layout.xaxis.tickvals && ticks.some((one, at) => ticks.slice(at + 1).some((other) => overlap(one, other, 4)));
      const covering = texts.filter(([, box], at) => texts.slice(0, at).some(([, other]) => overlap(box, other, 0)));
      if (!crowded && covering.length === 0) return;
      if (crowded) for (const key of ["tickvals", "ticktext"]) layout.xaxis[key] = layout.xaxis[key].filter((_, at) => at % 2 === 0);
      for (const [at, box] of covering) layout.annotations[at].yshift = (layout.annotations[at].yshift || 0) - box.height;
      await window.Plotly.react(place, data, { ...layout, xaxis: { ...layout.xaxis }, annotations: [...(layout.annotations || [])] }, config);
    }
  }

  function layoutOf(figure, style, width) {
    const phone = width < NARROW;
    const own = figure.layout;
    const longest = Math.max(0, ...figure.data.map((trace) => (trace.name || "").length));
    // Two long names beside each other would cover each other.
    const names = phone && longest > 13 ? 1 : 2;
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", colorway: ["@c0"],
      font: { family: style.getPropertyValue("--sans").trim(), size: phone ? 12 : 13, color: "@ink" },
      margin: { l: 8, r: phone ? 8 : 16, t: 8, b: 8 }, hovermode: "closest", dragmode: phone ? false : "zoom",
      legend: { font: { size: phone ? 11 : 13 }, itemwidth: 30, ...(phone && figure.data.length > 3 ? { entrywidth: names === 1 ? 0.96 : 0.48, entrywidthmode: "fraction" } : {}), orientation: "h", yref: "container", yanchor: "bottom", y: 0, x: 0, xanchor: "left", bgcolor: "rgba(0,0,0,0)", tracegroupgap: 4 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "@muted", activecolor: "@ink" }, hoverlabel: { bgcolor: "@card", bordercolor: "@line", font: { color: "@ink" }, namelength: -1 },
      ...own, width, height: figure.height + (phone && figure.data.length > 4 ? 24 * Math.ceil(figure.data.length / names) : 0),
    };
    for (const key of Object.keys(own).filter((name) => /^[xy]axis\d*$/.test(name))) layout[key] = axis(own[key], style, phone);
    if (phone && layout.xaxis) layout.xaxis = { tickangle: 0, ...layout.xaxis };
    if (!layout.xaxis) layout.xaxis = axis({}, style, phone);
    if (!layout.yaxis) layout.yaxis = axis({}, style, phone);
    return themed(layout, style);
  }

  // Says for whoever waits how wide a window the figures are drawn for.
  function drawAll(within = document) {
    const style = getComputedStyle(root);
    const drawnFor = window.innerWidth;
    return Promise.all(Object.entries(figures).map(([id, figure]) => {
      const place = document.getElementById(id);
      const width = Math.floor(place.clientWidth);
      // What is folded has no width yet: it is drawn when it is opened.
      if (width === 0 || !within.contains(place)) return null;
      const drawn = width < NARROW ? layDown(figure, width) : figure;
      const config = { displaylogo: false, displayModeBar: width < NARROW ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], toImageButtonOptions: { format: "svg", filename: id } };
      place.style.minHeight = `${drawn.height}px`;
      const [data, layout] = [themed(drawn.data, style), layoutOf(drawn, style, width)];
      const ready = window.Plotly.react(place, data, layout, config);
      return width < NARROW ? ready.then(() => apart(place, data, layout, config)) : ready;
    })).then(() => { root.dataset.drawnFor = String(drawnFor); });
  }

  async function unpackPlotly() {
    const bytes = Uint8Array.from(atob(document.getElementById("plotly-gzip").textContent), (char) => char.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
  }

  unpackPlotly().then(() => drawAll()).then(() => {
    draw = () => drawAll();
    document.addEventListener("toggle", (event) => { if (event.target.open) drawAll(event.target); }, true);
    let width = window.innerWidth;
    let timer = 0;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      clearTimeout(timer);
      timer = setTimeout(draw, 120);
    });
    root.dataset.plots = "drawn";
  }).catch((error) => {
    const failed = document.getElementById("failed");
    failed.hidden = false;
    failed.textContent = `The plots could not be drawn (${error.message}): the browser may be too old. The tables hold the same numbers.`;
    root.dataset.plots = "failed";
  });
})();
