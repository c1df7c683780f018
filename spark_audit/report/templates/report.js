document.documentElement.classList.add("scripted");

// A heading's button sorts its table. The first press puts the largest numbers, the latest times or A on top.
const words = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table:not(.plain)")) {
  const headings = [...table.tHead.rows[0].cells];
  // A narrow page shows the headings beside the cells.
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, column) => { cell.dataset.label = headings[column].textContent; });
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const numeric = heading.matches(".n, .t");
      const before = heading.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : numeric;
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const compare = (a, b) => {
        // Empty cells come last in both directions.
        if (a === "" || b === "") return (a === "") - (b === "");
        return (descending ? -1 : 1) * (isNaN(a) || isNaN(b) ? words.compare(a, b) : a - b);
      };
      const rows = [...table.tBodies[0].rows];
      table.tBodies[0].append(...rows.sort((a, b) => compare(value(a), value(b))));
    });
  });
}

// The rows of a list are filtered by kind and by words; a row must have all of the words.
for (const tools of document.querySelectorAll(".listed div.tools")) {
  const rows = [...tools.closest(".listed").querySelectorAll("tbody tr")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const filter = tools.querySelector("input");
  const kinds = [...tools.querySelectorAll("button")];
  const show = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const off = kinds.filter((button) => button.ariaPressed === "false").map((button) => button.value);
    for (const row of rows) {
      row.hidden = off.includes(row.dataset.kind) || !wanted.every((word) => texts.get(row).includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    tools.querySelector("output").textContent = left === rows.length ? "" : `${left} of ${rows.length} shown`;
  };
  filter.addEventListener("input", show);
  for (const button of kinds) {
    button.addEventListener("click", () => {
      button.ariaPressed = button.ariaPressed === "false" ? "true" : "false";
      show();
    });
  }
}

// Evidence is closed by default, and a printed page cannot be clicked.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));

// The records, found by words and by what a link to them names: #records?kind=denied&principal=User:alice&from=...
const found = document.querySelector("#records");
if (found) {
  const names = ["time", "from", "to", "kind", "event", "principal", "host", "client", "request", "operation", "resource", "outcome", "record"];
  const shown = ["time", "event", "principal", "host", "client", "request", "what", "outcome", "record"];
  const { rows, kinds } = JSON.parse(found.querySelector(".data").textContent);
  const records = rows.map((row) => Object.fromEntries(row.map((value, place) => [names[place], value])));
  for (const record of records) {
    record.time = new Date(record.time).toISOString().slice(0, 19).replace("T", " ");
    record.what = [record.operation, record.resource].filter(Boolean).join(" ");
    record.text = Object.values(record).join(" ").toLowerCase();
  }
  const [filter, chips, output] = found.querySelectorAll("input, .chips, output");
  const table = found.querySelector("table"), more = found.querySelector(".more");
  const step = 100;
  let only = new URLSearchParams(), hits = [];

  const fits = (record, name, value) => {
    if (name === "from") return record.to >= Number(value);
    if (name === "to") return record.from < Number(value);
    if (name === "kind") return value.split(",").includes(record.kind);
    return record[name] === value;
  };
  const append = () => {
    const body = table.tBodies[0];
    for (const record of hits.slice(body.rows.length, body.rows.length + step)) {
      const row = body.insertRow();
      for (const name of shown) {
        const cell = row.insertCell();
        cell.textContent = record[name];
        cell.className = { time: "t", event: "m", host: "m", request: "m" }[name] ?? "m name";
        cell.dataset.label = name;
      }
    }
    more.hidden = body.rows.length >= hits.length;
  };
  const show = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const named = [...only].filter(([name]) => name !== "q");
    hits = records.filter((record) => wanted.every((word) => record.text.includes(word)) && named.every(([name, value]) => fits(record, name, value)));
    const asked = (only.get("kind") ?? "").split(",");
    const of = kinds.filter((each) => asked.includes(each.kind));
    const there = of.reduce((sum, each) => sum + each.records, 0);
    const here = records.filter((record) => asked.includes(record.kind)).length;
    output.textContent = `${hits.length} found` + (here < there ? `; of ${there} records of this kind, ${here} are on this page` : "");
    table.tBodies[0].replaceChildren();
    table.parentElement.hidden = !hits.length;
    append();
    chips.replaceChildren(...named.map(([name, value]) => {
      const chip = document.createElement("button");
      chip.type = "button";
      const moment = name === "from" || name === "to";
      chip.textContent = `${name}: ${moment ? new Date(Number(value)).toISOString().slice(0, 19).replace("T", " ") : value || "(none)"} ✕`;
      chip.setAttribute("aria-label", `Remove the filter ${name}`);
      chip.addEventListener("click", () => { only.delete(name); show(); filter.focus(); });
      return chip;
    }));
  };
  const follow = () => {
    if (!location.hash.startsWith("#records?")) return;
    only = new URLSearchParams(location.hash.slice("#records?".length));
    filter.value = only.get("q") ?? "";
    show();
    found.scrollIntoView();
    found.querySelector("h2").focus({ preventScroll: true });
  };
  found.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("input", show);
  more.addEventListener("click", append);
  addEventListener("hashchange", follow);
  show();
  follow();
}
