// The front end of a model that is not shown: it makes itself known to the page (`playground.js` waits for it).
export default {
  initialize({ model }) {
    const key = model.get("key");
    (globalThis.tvmagicModels ??= new Map()).set(key, model);
    dispatchEvent(new CustomEvent("tvmagic-model", { detail: key }));
  },
};
