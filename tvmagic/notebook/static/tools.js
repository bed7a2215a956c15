// Programs taken out of the page: as text, as a diff, as a file; and the stepper as large as the window.

/** Put a text into the clipboard; also where the page is not secure, as over plain http. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = element("textarea", { style: "position:fixed;opacity:0", "aria-hidden": "true" });
    field.value = text;
    const before = document.activeElement;
    (before?.closest("dialog") ?? document.body).append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    before?.focus({ preventScroll: true });
  }
}

function saveText(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** A comparison as `diff -u` writes it; `before` and `after` are the lines. */
function unifiedDiff(rows, before, after, name, context = 3) {
  const kept = (row) => row.kind === "=";
  const near = rows.map((_, i) => rows.slice(Math.max(0, i - context), i + context + 1).some((row) => !kept(row)));
  const out = [`--- before ${name}`, `+++ after ${name}`];
  for (let i = 0; i < rows.length; ) {
    if (!near[i]) { i++; continue; }
    let end = i;
    while (end < rows.length && near[end]) end++;
    const [hunk, counts] = [[], [0, 0]];
    let added = []; // the new lines of neighbours that changed come after all their old ones
    for (const row of rows.slice(i, end)) {
      if (kept(row)) { hunk.push(...added.splice(0), ` ${after[row.b]}`); counts[0]++; counts[1]++; continue; }
      if (row.a !== null) { hunk.push(`-${before[row.a]}`); counts[0]++; }
      if (row.b !== null) { added.push(`+${after[row.b]}`); counts[1]++; }
    }
    hunk.push(...added);
    const first = (side) => rows.slice(0, i).filter((row) => row[side] !== null).length + (counts[side === "a" ? 0 : 1] ? 1 : 0);
    out.push(`@@ -${first("a")},${counts[0]} +${first("b")},${counts[1]} @@`, ...hunk);
    i = end;
  }
  return `${out.join("\n")}\n`;
}

/** The lines that are selected in a program: those of one column where there are two, with signs where there is one. */
function selectedText(view, selection) {
  const range = selection.getRangeAt(0);
  const cells = [...view.querySelectorAll(".tm-cell[data-line]")].filter((cell) => range.intersectsNode(cell));
  if (cells.length < 2) return null;
  const side = view.classList.contains("tm-side");
  const from = (selection.anchorNode.parentElement ?? view).closest(".tm-cell") ?? cells[0];
  const column = side ? cells.filter((cell) => cell.classList.contains("tm-right") === from.classList.contains("tm-right")) : cells;
  return column.map((cell) => {
    const [sign, text] = [cell.querySelector(".tm-gut").textContent, cell.querySelector(".tm-text").textContent];
    return side ? text : `${sign === "\u2212" ? "-" : sign} ${text}`;
  }).join("\n");
}

/** Show a node as large as the window; `back` is called when it is at its place again. */
function maximise(node, back) {
  const place = element("div");
  const box = element("dialog", { class: "tm-maximised", "aria-label": node.getAttribute("aria-label") });
  node.before(place);
  box.append(node);
  document.body.append(box);
  const close = () => {
    place.replaceWith(node);
    box.remove();
    back();
  };
  box.addEventListener("close", close);
  box.showModal();
  return () => box.close();
}
