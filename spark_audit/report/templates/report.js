document.documentElement.classList.add("scripted");

// A heading's button sorts its table. The first press puts the largest numbers, the latest times or A on top.
const words = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
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
for (const tools of document.querySelectorAll(".listed .tools")) {
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
