// An operator in WebAssembly, run on inputs that are made here and compared with the plain loops that were written from
// its definition. `runtime/wasm_host.py` is the same host in Python.

function makeHost({ reference, half, brain }) {
  const nothing = () => {};
  const BUDGET = 300; // milliseconds for which a function is called again to find its least time
  const PAGE = 65536;
  const TYPES = {
    bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
    int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array, float64: Float64Array,
  };

  // ---- 16-bit floats, which are float32 in JavaScript and bits in memory

  const word = new Uint32Array(1), single = new Float32Array(word.buffer);
  const bitsOf = {
    bfloat16: (x) => { single[0] = brain(x); return Number.isNaN(x) ? 0x7fc0 : word[0] >>> 16; },
    float16: (x) => {
      const size = Math.abs(half(x)), sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
      if (Number.isNaN(x)) return 0x7e00;
      if (size === Infinity) return sign | 0x7c00;
      if (size < 2 ** -14) return sign | (size * 2 ** 24);
      const exponent = Math.floor(Math.log2(size));
      return sign | ((exponent + 15) << 10) | ((size / 2 ** exponent - 1) * 1024);
    },
  };
  const floatOf = {
    bfloat16: (bits) => { word[0] = bits << 16; return single[0]; },
    float16: (bits) => {
      const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
      if (exponent === 31) return rest ? NaN : sign * Infinity;
      return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : rest * 2 ** -24);
    },
  };
  /** What is in memory for values. */
  const encoded = (dtype, values) => (bitsOf[dtype] ? Uint16Array.from(values, bitsOf[dtype]) : values);
  const decoded = (dtype, memory) => (floatOf[dtype] ? Float32Array.from(memory, floatOf[dtype]) : memory);

  // ---- inputs

  const product = (shape) => shape.reduce((all, size) => all * size, 1);

  /** Random values: floats from -1 to 1, whole numbers from a small range, or indices below a limit. */
  function randomArray({ dtype, shape, limit }, random) {
    const count = product(shape);
    const low = limit || dtype[0] === "u" ? 0 : -8, span = limit || (dtype[0] === "u" ? 8 : 16);
    const whole = () => low + Math.floor(random() * span);
    if (dtype === "bool") return Uint8Array.from({ length: count }, () => random() < 0.5);
    if (dtype.includes("int64")) return TYPES[dtype].from({ length: count }, () => BigInt(whole()));
    if (dtype.includes("int")) return TYPES[dtype].from({ length: count }, whole);
    const rounded = { float16: half, bfloat16: brain }[dtype] ?? ((x) => x);
    const values = new (dtype === "float64" ? Float64Array : Float32Array)(count);
    for (let i = 0; i < count; i++) values[i] = rounded(random() * 2 - 1);
    return values;
  }

  /** The array that the page has for an input. */
  function givenArray({ dtype, data }) {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    return decoded(dtype, new TYPES[dtype](bytes.buffer));
  }

  /** Throw an error for the first assertion of the operator's cell that inputs violate. */
  function testPreconditions({ code, assertions }, inputs) {
    const [found, ...work] = reference(code)(inputs);
    const failed = assertions[Number(found[0]) - 1];
    const line = ({ line }) => (line ? ` (line ${line})` : "");
    if (failed) {
      const places = failed.names.map((name, n) => `\`${name} = ${found[n + 1]}\``).join(", ");
      throw new Error(`\`${failed.text}\` does not hold${places && ` at ${places}`}${line(failed)}`);
    }
    assertions.filter(({ over }) => over).forEach((assertion, n) => {
      for (let first = 0; first < work[n].length; first += assertion.over) {
        if (new Set(work[n].subarray(first, first + assertion.over)).size < assertion.over) throw new Error(`\`${assertion.text}\` does not hold${line(assertion)}`);
      }
    });
  }

  /** Numbers from 0 to below 1, the same ones for a seed (xorshift). */
  function generator(seed) {
    let state = (seed * 2654435761 + 88172645) | 0 || 1;
    return () => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return (state >>> 0) / 2 ** 32;
    };
  }

  // ---- the functions of C

  const { erf, exp10 } = (() => {
    const call = (name) => (x) => reference(`return functions.${name}(inputs);`)(x);
    return { erf: call("erf"), exp10: (x) => 10 ** x };
  })();
  const nextAfter = (x, y, bytes) => {
    if (Number.isNaN(x) || Number.isNaN(y) || x === y) return x === y ? y : NaN;
    const view = new DataView(new ArrayBuffer(8)), big = bytes === 8;
    if (x === 0) { big ? view.setBigInt64(0, 1n) : view.setInt32(0, 1); return Math.sign(y) * (big ? view.getFloat64(0) : view.getFloat32(0)); }
    const by = y > x === x > 0 ? 1 : -1;
    if (big) { view.setFloat64(0, x); view.setBigInt64(0, view.getBigInt64(0) + BigInt(by)); return view.getFloat64(0); }
    view.setFloat32(0, x);
    view.setInt32(0, view.getInt32(0) + by);
    return view.getFloat32(0);
  };
  const C = {
    erf, exp10, exp2: (x) => 2 ** x, fmod: (x, y) => x % y, ldexp: (x, n) => x * 2 ** (n >> 1) * 2 ** (n - (n >> 1)),
    pow: (x, y) => (x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y), nextafter: (x, y) => nextAfter(x, y, 8),
  };
  for (const name of ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp", "hypot", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"])
    C[name] = Math[name];
  const functionsOfC = { ...C };
  for (const name of Object.keys(C)) functionsOfC[`${name}f`] = (...args) => Math.fround(C[name](...args));
  functionsOfC.nextafterf = (x, y) => nextAfter(x, y, 4);

  // ---- the module

  /** The compiled function with its arguments in memory: `call()` runs it, `read(n)` gives the array of an argument. */
  async function load(kernel, params, values) {
    let end = kernel.heap;
    const places = params.map((param, n) => {
      const place = end;
      end += Math.ceil(TYPES[param.dtype].BYTES_PER_ELEMENT * product(params[n].shape) / 64) * 64;
      return place;
    });
    const memory = new WebAssembly.Memory({ initial: Math.ceil(end / PAGE) + 1 });
    const number = (value) => new WebAssembly.Global({ value: "i32", mutable: true }, value);
    const env = {
      ...functionsOfC, __linear_memory: memory, __stack_pointer: number(kernel.stack), __heap_pointer: number(end + 64),
      __indirect_function_table: new WebAssembly.Table({ initial: 1, element: "anyfunc" }),
    };
    const code = Uint8Array.from(atob(kernel.code), (c) => c.charCodeAt(0));
    const { instance } = await WebAssembly.instantiate(code, { env });
    const view = (n) => new TYPES[params[n].dtype](memory.buffer, places[n], product(params[n].shape));
    const sizes = kernel.sizes.map(({ value, wide }) => (wide ? BigInt(value) : value));
    const run = instance.exports[kernel.symbol];
    const fill = () => values.forEach((array, n) => { if (array) view(n).set(encoded(params[n].dtype, array)); });
    fill();
    const updates = params.some((param) => param.updated);
    return {
      fill: updates ? fill : nothing,
      read: (n) => decoded(params[n].dtype, view(n).slice()),
      call: () => {
        const status = run(...places, ...sizes);
        if (!status) return;
        const site = kernel.error ? Number(new BigInt64Array(memory.buffer, kernel.error + 128 * (status - 1), 1)[0]) : 0;
        throw new Error(kernel.sites[site - 1] ?? `the function stopped with status ${status}`);
      },
    };
  }

  // ---- running and comparing

  /** The least time of a call in milliseconds; `before` is not counted. */
  function leastTime(call, before, budget = BUDGET) {
    const start = performance.now();
    let least = Infinity;
    do {
      before();
      // a clock that goes by tenths of milliseconds is asked after so many calls that they are seen
      let [calls, time] = [0, performance.now()];
      do { call(); calls++; } while (before === nothing && performance.now() - time < 2);
      least = Math.min(least, (performance.now() - time) / calls);
    } while (performance.now() - start < budget);
    return least;
  }

  /** The values of an output beside those of the reference, each with its rounding bound; `open` would pass whatever they are. */
  function compared({ name, shape, dtype }, got, { value, error }) {
    let [wrong, open, worst, first] = [0, 0, 0, -1];
    const normal = { float16: 2 ** -14, float32: 2 ** -126, bfloat16: 2 ** -126, float64: 2 ** -1022 }[dtype] ?? 0; // a smaller error is underflow
    const largest = value.reduce((most, b) => (Number.isFinite(Number(b)) ? Math.max(most, Math.abs(Number(b))) : most), 0);
    const floor = Math.max(largest / 1000, normal);
    for (let i = 0; i < got.length; i++) {
      const [a, b] = [got[i], value[i]];
      const limit = error ? error[i] * (1 + 1e-6) : 0, bound = limit === limit ? limit : Infinity;
      const far = a === b || (a !== a && b !== b) ? 0 : Math.abs(Number(a) - Number(b));
      if (bound < Infinity && !(far <= bound)) {
        wrong++;
        if (first < 0) first = i;
      } else if (b !== b || bound === Infinity || (bound > 0 && bound >= floor && bound >= Math.abs(Number(b)))) open++;
      else if (far) worst = Math.max(worst, far / bound);
    }
    const place = shape.map((_, axis) => Math.floor(first / product(shape.slice(axis + 1))) % shape[axis]);
    const differs = first < 0 ? null : { place, got: String(got[first]), expected: String(value[first]), bound: error ? error[first] : 0 };
    return { name, values: got.length, wrong, open, worst, differs };
  }

  /** Make inputs, run both, compare. `say` hears what is being done. */
  async function run(job, say = nothing) {
    try {
      return await agreed(job, say);
    } catch (error) {
      // engines give no code for this: of their range errors, those about memory and the lengths of arrays
      if (!(error instanceof RangeError && /alloc|memory|length/i.test(error.message))) throw error;
      const bytes = job.params.reduce((all, { dtype, shape }) => all + TYPES[dtype].BYTES_PER_ELEMENT * product(shape), 0);
      throw new Error(`this browser has no room for its arrays (${Math.ceil(bytes / 2 ** 20)} MiB) and those of the reference`);
    }
  }

  async function agreed({ kernel, params, plain, bounds, preconditions, seed }, say) {
    say("making inputs");
    const random = generator(seed);
    const values = params.map((param) => (param.input ? (param.data === undefined ? randomArray(param, random) : givenArray(param)) : null));
    const inputs = values.filter(Boolean);
    if (preconditions) testPreconditions(preconditions, inputs);
    say("running WebAssembly");
    const loaded = await load(kernel, params, values);
    loaded.call();
    const outputs = kernel.outputs.map((n) => loaded.read(n));
    const wasm = leastTime(loaded.call, loaded.fill);
    if (!plain) return { outputs: kernel.outputs.map((n, i) => ({ name: params[n].name, values: outputs[i].length })), wasm };
    say("running JavaScript");
    const loops = reference(plain);
    const javascript = leastTime(() => loops(inputs), nothing);
    say("comparing");
    const expected = reference(bounds)(inputs);
    return { outputs: kernel.outputs.map((n, i) => compared(params[n], outputs[i], expected[i])), wasm, javascript };
  }

  return { run, functionsOfC: Object.keys(functionsOfC) };
}

/** The host in a worker of its own, so that the page stays alive while it computes. */
function startWorker() {
  const answer = "onmessage = ({ data }) => host.run(data, (said) => postMessage({ said })).then((result) => postMessage({ result }), (error) => postMessage({ error: error.message }));";
  const text = `"use strict";\n${makeArithmetic}\n${makeHost}\nconst host = makeHost(makeArithmetic());\n${answer}`;
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(url);
  URL.revokeObjectURL(url);
  return worker;
}
