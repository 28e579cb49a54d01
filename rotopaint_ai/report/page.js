"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  // Charts: hide and show curves, values under the pointer.
  for (const figure of all(".chart")) {
    const svg = figure.querySelector("svg");
    const data = JSON.parse(figure.querySelector("script").textContent);
    const pointer = svg.querySelector(".pointer");
    const [left, right, top, bottom] = data.plot;
    const hidden = new Set();
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    figure.append(tip);
    for (const key of all(".key", figure)) {
      key.addEventListener("click", () => {
        const name = key.dataset.curve;
        hidden.has(name) ? hidden.delete(name) : hidden.add(name);
        key.classList.toggle("off", hidden.has(name));
        for (const path of all(".curve", svg)) if (path.dataset.curve === name) path.classList.toggle("off", hidden.has(name));
      });
    }
    const first = data.frames[0], last = data.frames[data.frames.length - 1];
    const show = (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const wanted = first + (last - first) * clamp((x - left) / (right - left), 0, 1);
      let row = 0;
      data.frames.forEach((frame, i) => { if (Math.abs(frame - wanted) < Math.abs(data.frames[row] - wanted)) row = i; });
      const frame = data.frames[row];
      const px = last > first ? left + (right - left) * (frame - first) / (last - first) : (left + right) / 2;
      const rows = data.curves.filter(([name, , values]) => !hidden.has(name) && values[row] !== null);
      rows.sort((a, b) => b[2][row] - a[2][row]);
      const dots = rows.map(([, colour, values]) => `<circle r="3.4" fill="${colour}" cx="${px}" cy="${top + (bottom - top) * (1 - values[row] / data.top)}"/>`);
      pointer.innerHTML = `<line x1="${px}" x2="${px}" y1="${top}" y2="${bottom}"/>${dots.join("")}`;
      tip.replaceChildren();
      const head = document.createElement("b");
      head.textContent = `frame ${frame}` + (data.marks[frame] ? ` - ${data.marks[frame]}` : "");
      tip.append(head);
      for (const [name, colour, values] of rows.slice(0, 16)) {
        const line = document.createElement("div");
        const swatch = document.createElement("i");
        swatch.style.background = colour;
        const value = document.createElement("span");
        value.textContent = `${values[row]} ${data.unit}`;
        line.append(swatch, name, value);
        tip.append(line);
      }
      tip.hidden = false;
      const at = px / svg.viewBox.baseVal.width * box.width;
      tip.style.top = `${svg.offsetTop ?? 0}px`;
      const home = figure.getBoundingClientRect();
      tip.style.top = `${box.top - home.top + 12}px`;
      tip.style.left = at > box.width / 2 ? "" : `${at + 14}px`;
      tip.style.right = at > box.width / 2 ? `${box.width - at + 14}px` : "";
    };
    svg.addEventListener("pointermove", show);
    svg.addEventListener("pointerleave", () => { tip.hidden = true; pointer.innerHTML = ""; });
  }

  // Before and after, wiped by the pointer.
  for (const section of all(".compare")) {
    const wipe = section.querySelector(".wipe");
    const zoom = wipe.querySelector(".zoom");
    const bar = wipe.querySelector(".bar");
    const before = wipe.querySelector(".before"), after = wipe.querySelector(".after");
    let scale = 1, centre = [0.5, 0.5], at = 0.5;
    const place = () => {
      const inside = (at - centre[0]) / scale + centre[0];
      zoom.style.transformOrigin = `${centre[0] * 100}% ${centre[1] * 100}%`;
      zoom.style.transform = `scale(${scale})`;
      after.style.setProperty("--at", `${clamp(inside, 0, 1) * 100}%`);
      bar.style.setProperty("--at", `${at * 100}%`);
    };
    wipe.addEventListener("pointermove", (event) => {
      const box = wipe.getBoundingClientRect();
      at = clamp((event.clientX - box.left) / box.width, 0, 1);
      if (scale > 1) centre = [at, clamp((event.clientY - box.top) / box.height, 0, 1)];
      place();
    });
    const chips = all("[data-before]", section);
    for (const chip of chips) chip.addEventListener("click", () => {
      before.src = chip.dataset.before;
      after.src = chip.dataset.after;
      section.querySelector(".words").textContent = chip.dataset.words;
      for (const other of chips) other.setAttribute("aria-pressed", String(other === chip));
    });
    const zooms = all("[data-zoom]", section);
    for (const button of zooms) button.addEventListener("click", () => {
      scale = Number(button.dataset.zoom);
      centre = JSON.parse(wipe.dataset.centre);
      wipe.classList.toggle("big", scale > 2);
      for (const other of zooms) other.setAttribute("aria-pressed", String(other === button));
      place();
    });
  }

  // Contact sheet: open large, step, splines on and off.
  const cards = all(".card");
  const large = document.getElementById("large");
  let open = 0;
  const show = (row) => {
    open = (row + cards.length) % cards.length;
    const picture = cards[open].querySelector(".pic").cloneNode(true);
    large.querySelector(".stagebox").replaceChildren(picture);
    large.querySelector(".cap").textContent = cards[open].dataset.words;
    if (!large.open) large.showModal();
  };
  const splines = () => document.body.classList.toggle("plain");
  cards.forEach((card, row) => card.addEventListener("click", () => show(row)));
  for (const button of all("[data-step]", large)) button.addEventListener("click", () => show(open + Number(button.dataset.step)));
  for (const button of all("[data-splines]")) button.addEventListener("click", splines);
  large.querySelector("[data-close]").addEventListener("click", () => large.close());
  large.addEventListener("click", (event) => { if (event.target === large) large.close(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "s" || event.key === "S") splines();
    if (large.open && event.key === "ArrowRight") show(open + 1);
    if (large.open && event.key === "ArrowLeft") show(open - 1);
  });
})();
