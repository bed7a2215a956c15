// Says of outputs that the operator which they are about has another definition by now: the `%%tensor` cell that is
// the nearest above them was run again with another text. It runs in the output of that cell.
(() => {
  const nearest = (out, name) => [...document.querySelectorAll(".tvmagic[data-defines]")]
    .filter((cell) => cell.dataset.defines.startsWith(`${name}:`) && cell.compareDocumentPosition(out) & Node.DOCUMENT_POSITION_FOLLOWING).at(-1);
  const mark = () => {
    for (const out of document.querySelectorAll(".tvmagic[data-of]")) {
      const name = out.dataset.of.split(":")[0];
      const cell = nearest(out, name);
      const [stale, said] = [cell && cell.dataset.defines !== out.dataset.of, out.querySelector(":scope > .tm-stale")];
      if (stale && !said) {
        const note = document.createElement("div");
        note.className = "tm-stale";
        note.setAttribute("role", "status");
        note.textContent = `Out of date: ${name} was defined again since. Run this cell again.`;
        out.prepend(note);
      } else if (!stale) said?.remove();
    }
  };
  if (!window.tvmagicStale) {
    let due = 0;
    window.tvmagicStale = new MutationObserver(() => { due ||= setTimeout(() => { due = 0; mark(); }, 200); });
    window.tvmagicStale.observe(document.body, { childList: true, subtree: true });
  }
  mark();
})();
