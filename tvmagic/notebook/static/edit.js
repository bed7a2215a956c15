// Editing the program after a step in place. The kernel runs the passes that are left; it is reached by a model that it makes
// in the page (`link.js`), which knows the steppers of this kernel by their keys. Without one nothing can be edited. A page
// may have the notebooks of several kernels: the one that knows the stepper is asked.

class Edits {
  constructor(stepper) {
    this.stepper = stepper;
    this.steps = [];
    this.linked = new Set(); // the models of all kernels that were asked whether they know the stepper
    this.button = element("button", { type: "button", hidden: true, title: "Edit the program after this step, and run the passes that are left (e)", onclick: () => this.ask({}) }, "Edit");
    this.box = element("div", { class: "tm-edit", hidden: true });
    this.heard = new AbortController();
    addEventListener("tvmagic-model", () => this.link(), { signal: this.heard.signal });
    this.link();
  }

  end() {
    this.heard.abort();
    clearTimeout(this.waiting);
  }

  /** Ask each kernel's model that the page has which steps can be edited. */
  link() {
    for (const [key, model] of globalThis.tvmagicModels ?? []) {
      if (!key.startsWith("tvmagic-editor") || this.linked.has(model)) continue;
      this.linked.add(model);
      model.on("msg:custom", (told) => { if (told.key === this.stepper.data.key) this.heardFrom(model, told); });
      this.send(model, {});
    }
  }

  /** Ask a kernel; the model of one that has ended cannot send. */
  send(model, more) {
    try {
      model.send({ key: this.stepper.data.key, ...more });
    } catch {
      this.unheard();
    }
  }

  /** What a kernel says; one that has no step of the stepper is another notebook's, or was restarted. */
  heardFrom(model, told) {
    if (told.steps?.length) this.model = model;
    if (model === this.model) this.told(told);
  }

  ask(more) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.unheard(), more.text === undefined ? 3000 : 20000);
    this.send(this.model, { step: this.stepper.state.step, ...more });
  }

  /** A kernel that has stopped does not answer, nor does one that runs another cell. */
  unheard() {
    if (!this.model) return; // nobody has asked for anything
    const place = this.box.hidden ? this.stepper.said : this.said;
    place.textContent = "The kernel does not answer; it is busy, or was stopped: then run the cell again.";
  }

  told(told) {
    clearTimeout(this.waiting);
    if (this.stepper.said.textContent.startsWith("The kernel")) this.stepper.said.textContent = "";
    if (told.steps) this.steps = told.steps;
    else if (told.text !== undefined) this.open(told);
    else if (told.step === this.at) this.result(told);
    this.show();
  }

  /** Whether the program of the present step can be edited, and what is open. */
  show() {
    this.button.hidden = !this.steps.includes(this.stepper.state.step);
    const open = this.at === this.stepper.state.step;
    this.box.hidden = !open;
    this.stepper.view.hidden = open;
  }

  open({ step, text }) {
    this.at = step;
    const name = this.stepper.data.steps[step].name;
    this.area = element("textarea", { spellcheck: "false", wrap: "off", rows: Math.min(30, text.split("\n").length + 1), "aria-label": `Program after ${name}`, onkeydown: (e) => this.key(e) });
    this.area.value = text;
    this.said = element("div", { class: "tm-meta", role: "status" });
    this.out = element("div");
    this.box.replaceChildren(this.area,
      element("div", { class: "tm-tools" }, this.said,
        element("button", { type: "button", title: "Ctrl+Enter", onclick: () => this.run() }, "Run the passes that are left"),
        element("button", { type: "button", onclick: () => this.close() }, "Close")),
      this.out);
    this.show();
    this.area.focus();
  }

  run() {
    this.said.textContent = "running \u2026";
    this.ask({ text: this.area.value });
  }

  result({ error, facts, timeline, both }) {
    this.said.textContent = error === undefined ? "done" : "";
    this.letGo();
    this.out.replaceChildren();
    if (error !== undefined) return this.out.append(element("div", { class: "tm-error" }, element("pre", {}, error)));
    const verdict = element("div");
    verdict.innerHTML = facts;
    const [mine, sides] = [element("div"), element("div")];
    this.out.append(verdict, mine, sides);
    this.made = [new Stepper(mine, timeline)];
    if (both) this.made.push(new Stepper(sides, both));
  }

  letGo() {
    this.made?.forEach((stepper) => stepper.end());
    this.made = [];
  }

  close() {
    this.letGo();
    this.box.replaceChildren();
    this.at = undefined;
    this.show();
    this.stepper.view.focus();
  }

  key(event) {
    event.stopPropagation();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(); }
    else if (event.key === "Escape") this.close();
  }
}
