// Tables sort by click on a heading: the first click puts the largest numbers, or A, on top.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const numeric = heading.classList.contains("n");
      const descending = heading.ariaSort ? heading.ariaSort === "ascending" : numeric;
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const compare = (a, b) => numeric ? Number(value(a) || -1) - Number(value(b) || -1) : value(a).localeCompare(value(b));
      const rows = [...table.tBodies[0].rows].sort((a, b) => (descending ? -1 : 1) * compare(a, b));
      table.tBodies[0].append(...rows);
    });
  });
}
