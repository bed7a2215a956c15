// The playground: knobs above a stepper, costs, a measured time and assembly. The kernel computes; it is reached by a
// model that it makes in the page (`link.js`). Without one the values that were shown last stay, and can be stepped through.

const PATIENCE = 5000; // milliseconds without an answer after which the kernel is said to be gone

class Playground {
  constructor(box, data) {
    this.key = data.key;
    this.knobs = element("div", { class: "tm-controls", role: "group", "aria-label": "Knobs" });
    this.said = element("div", { class: "tm-meta", role: "status" });
    this.facts = element("div");
    this.steps = element("div");
    this.assembly = element("div");
    this.code = element("details", {}, element("summary", {}, "Assembly"), this.assembly);
    const title = data.theme === "auto" ? null : data.theme;
    this.root = element("div", { class: "tvmagic tm-player tm-playground", role: "group", "aria-label": `Playground of ${data.title}`, "data-lm-suppress-shortcuts": "true", "data-theme": title },
      this.knobs, this.said, this.facts, this.steps, this.code);
    box.replaceChildren(this.root);
    this.draw(data.drawn);
    addEventListener("tvmagic-model", (e) => { if (e.detail === this.key) this.link(); });
    this.link();
  }

  /** Ask the kernel's model, if the page has it, whether the kernel is there: a saved notebook may hold the model alone. */
  link() {
    const model = globalThis.tvmagicModels?.get(this.key);
    if (!model || model === this.asked) return;
    this.asked = model;
    model.on("change:drawn", () => this.draw(model.get("drawn")));
    model.on("msg:custom", () => {
      this.model = model;
      this.draw(model.get("drawn"));
    });
    try {
      model.send("are you there?");
    } catch {
      // the model of a kernel that has ended
    }
  }

  say() {
    this.knobs.querySelectorAll("input").forEach((input) => { input.disabled = !this.model; });
    this.said.textContent = this.model ? "" : "No kernel has computed this here: run the cell to turn the knobs.";
  }

  draw(drawn) {
    clearTimeout(this.waiting);
    const held = document.activeElement?.closest?.(".tm-knob")?.dataset.name;
    this.knobs.replaceChildren(...drawn.knobs.map((knob) => this.slider(knob)));
    if (held) this.knobs.querySelector(`[data-name="${CSS.escape(held)}"] input`)?.focus();
    this.facts.innerHTML = drawn.facts;
    this.assembly.innerHTML = drawn.assembly;
    this.code.hidden = !drawn.assembly;
    const last = this.stepper;
    this.stepper = new Stepper(this.steps, drawn.stepper, last?.kept(drawn.stepper));
    last?.end();
    this.say();
  }

  slider([name, choices, at]) {
    const value = element("output", {}, choices[at]);
    const input = element("input", { type: "range", min: 0, max: choices.length - 1, step: 1, value: at, "aria-label": name, "aria-valuetext": choices[at] });
    input.addEventListener("input", () => {
      value.textContent = choices[input.value];
      input.setAttribute("aria-valuetext", choices[input.value]);
    });
    input.addEventListener("change", () => this.turn(name, +input.value));
    return element("label", { class: "tm-knob", "data-name": name }, `${name} `, input, value);
  }

  turn(name, at) {
    this.said.textContent = "computing \u2026";
    this.waiting = setTimeout(() => { this.said.textContent = "The kernel does not answer; it may be busy or stopped."; }, PATIENCE);
    this.model.set("turned", [name, at]);
    try {
      this.model.save_changes();
    } catch {
      // nobody answers, which is said in a moment
    }
  }
}

kinds.playground = (box, data) => new Playground(box, data);
