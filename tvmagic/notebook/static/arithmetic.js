// What the operators of `tvmagic.ir.semantics` compute, for the code that `tvmagic.operators.javascript` writes: on
// numbers, on BigInt for 64-bit integers, and the errors of results whose operands have errors.

function makeArithmetic() {
  const fround = Math.fround;

  /** Half to even. */
  const rint = (x) => {
    const low = Math.floor(x), rest = x - low;
    return rest < 0.5 || (rest === 0.5 && low % 2 === 0) || !Number.isFinite(x) ? (x === 0 || !Number.isFinite(x) ? x : low) : low + 1;
  };

  /** The nearest float16. */
  const half = (x) => {
    const size = Math.abs(x);
    if (!(size < 65520)) return size >= 65520 ? Math.sign(x) * Infinity : x;
    const unit = size < 2 ** -14 ? 2 ** -24 : 2 ** (Math.floor(Math.log2(size)) - 10);
    return rint(x / unit) * unit;
  };

  const words = new Uint32Array(1), single = new Float32Array(words.buffer);

  /** The nearest bfloat16. */
  const brain = (x) => {
    single[0] = x;
    if (!Number.isFinite(single[0])) return single[0];
    words[0] += 0x7fff + ((words[0] >>> 16) & 1);
    words[0] &= 0xffff0000;
    return single[0];
  };

  // ---- integers

  const wholeDivide = (x, y) => (y === 0 ? 0 : Math.trunc(x / y));
  const wholeRemain = (x, y) => (y === 0 ? 0 : x % y);
  const wholeFloorDivide = (x, y) => (y === 0 ? 0 : Math.floor(x / y));
  const wholeFloorRemain = (x, y) => (y === 0 ? 0 : x - Math.floor(x / y) * y);
  const bigDivide = (x, y) => (y === 0n ? 0n : x / y);
  const bigRemain = (x, y) => (y === 0n ? 0n : x % y);
  const bigFloorRemain = (x, y) => {
    const rest = bigRemain(x, y);
    return rest !== 0n && rest < 0n !== y < 0n ? rest + y : rest;
  };
  const bigFloorDivide = (x, y) => (y === 0n ? 0n : (x - bigFloorRemain(x, y)) / y);
  const bigMin = (x, y) => (x < y ? x : y);
  const bigMax = (x, y) => (x > y ? x : y);
  const shiftLeft = (x, by, bits) => (by < 0 || by >= bits ? 0 : x << by);
  const shiftRight = (x, by, bits) => (by < 0 || by >= bits ? (x < 0 ? -1 : 0) : x < 0 ? x >> by : x >>> by);
  const shiftLeftBig = (x, by, bits) => (by < 0n || by >= bits ? 0n : x << by);
  const shiftRightBig = (x, by, bits) => (by < 0n || by >= bits ? (x < 0n ? -1n : 0n) : x >> by);
  const toWhole = (x, low, high) => (Number.isNaN(x) ? 0 : Math.trunc(Math.min(Math.max(x, low), high)));
  const toBig = (x, low, high) => (Number.isNaN(x) ? 0n : x <= Number(low) ? low : x >= Number(high) ? high : BigInt(Math.trunc(x)));
  const unsigned = (x, bits) => BigInt.asUintN(bits, BigInt(x));
  const leadingZeros = (x, bits) => bits - (unsigned(x, bits) === 0n ? 0 : unsigned(x, bits).toString(2).length);
  const onBits = (x, bits) => unsigned(x, bits).toString(2).replaceAll("0", "").length;

  // ---- floats

  const copySign = (x, of) => (of < 0 || Object.is(of, -0) ? -Math.abs(x) : Math.abs(x));
  const divide = (x, y) => x / y;
  const remain = (x, y) => x % y;
  const floorRemain = (x, y) => {
    const rest = x % y;
    return rest === 0 ? copySign(0, y) : rest < 0 !== y < 0 ? rest + y : rest;
  };
  const floorDivide = (x, y) => (y === 0 ? x / y : rint((x - floorRemain(x, y)) / y));

  /** The error function: its series near 0, else one minus a continued fraction. */
  const erf = (x) => {
    const size = Math.abs(x);
    if (Number.isNaN(x) || size > 6) return Number.isNaN(x) ? x : Math.sign(x);
    if (size < 2.5) {
      let term = x, sum = x;
      for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
        term *= (-x * x) / n;
        sum += term / (2 * n + 1);
      }
      return (sum * 2) / Math.sqrt(Math.PI);
    }
    let fraction = 0;
    for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
    return Math.sign(x) * (1 - Math.exp(-x * x) / (size + fraction) / Math.sqrt(Math.PI));
  };

  const sigmoid = (x) => {
    const small = Math.exp(-Math.abs(x));
    return (x < 0 ? small : 1) / (1 + small);
  };

  const functions = {
    erf, sigmoid, exp: Math.exp, exp2: (x) => 2 ** x, exp10: (x) => 10 ** x, rsqrt: (x) => 1 / Math.sqrt(x),
    pow: (x, y) => (x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y),
  };
  for (const name of ["log", "log2", "log10", "log1p", "tanh", "sqrt", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
    functions[name] = Math[name];

  // ---- errors: how far the result may be from what is computed here

  /** Of rounding a value, at least `least`, as among subnormal numbers; what is not finite is what it is. */
  const err = (x, unit, least = 1e-44) => (Math.abs(x) < Infinity ? Math.abs(x) * unit + least : 0);

  /** The least numbers that are rounded to infinity, by what rounds. */
  const edges = { fround: 2 ** 128 - 2 ** 103, half: 65520, brain: 2 ** 128 - 2 ** 119 };

  /** A number that may be beyond the edge of its type, with its error: infinite if it is so for certain, else nothing is known. */
  const beyond = (x, error, edge) => {
    if (!Number.isFinite(x)) return [x, error];
    return Math.abs(x) - error > edge ? [Math.sign(x) * Infinity, 0] : [x, Infinity];
  };

  /** A sum of terms whose magnitudes have the sum `size`: if that is beyond the edge, so may be what is summed first. */
  const summed = (x, size, error, edge) => (size + error < edge ? [x, error] : beyond(x, error + size - Math.abs(x), edge));

  /** How far apart two numbers are; they may be equal infinities. */
  const apart = (x, y) => (x === y ? 0 : Math.abs(Number(x) - Number(y)));

  const divideError = (x, y, ex, ey, unit, least) => {
    const quotient = x / y, rest = Math.abs(y) - ey;
    if (ex === 0 && ey === 0) return err(quotient, unit, least);
    return rest > 0 ? (ex + Math.abs(quotient) * ey) / rest + err(quotient, unit, least) : Infinity;
  };
  const stepped = (x, y, ex, ey, unit, least, whole) => (ex === 0 && ey === 0 ? err(whole, unit, least) : Infinity);
  const remainError = (x, y, ex, ey, unit, least) => stepped(x, y, ex, ey, unit, least, y);
  const floorRemainError = remainError;
  const floorDivideError = (x, y, ex, ey, unit, least) => {
    const exact = divideError(x, y, ex, ey, unit, least);
    return Math.floor(x / y - exact) === Math.floor(x / y + exact) ? 0 : exact + 1;
  };

  /** Of a function that rises or falls all the way: at the ends of where its operand may be. */
  const riseError = (f, x, ex, unit, least) => {
    const y = f(x);
    if (!(ex > 0)) return err(y, unit, least);
    if (ex === Infinity) return Infinity;
    const below = f(x - ex), above = f(x + ex);
    return (Number.isNaN(below) ? Infinity : apart(below, y)) + (Number.isNaN(above) ? Infinity : apart(above, y)) + err(y, unit, least);
  };

  const coshError = (x, ex, unit, least) => riseError(Math.cosh, Math.abs(x), ex, unit, least);
  const tanError = (x, ex, unit, least) => (ex === 0 || (ex < 1 && Math.cos(x - ex) * Math.cos(x + ex) > 0) ? riseError(Math.tan, x, ex, unit, least) : Infinity);

  /** An angle; unknown if the point may be the origin, or on either side of where the angle turns from pi to -pi. */
  const atan2Error = (y, x, ey, ex, unit, least) => {
    const rounding = err(Math.atan2(y, x), unit, least), nearest = Math.hypot(x, y) - ex - ey;
    if (ex === 0 && ey === 0) return rounding;
    return nearest > 0 && !(x - ex < 0 && Math.abs(y) <= ey) ? (ex + ey) / nearest + rounding : Infinity;
  };

  const powError = (x, y, ex, ey, unit, least) => {
    const z = functions.pow(x, y);
    if (ex === 0 && ey === 0) return err(z, unit, least);
    if (!(x > ex)) return Number.isInteger(y) && ey === 0 && y >= 0 ? Math.abs((Math.abs(x) + ex) ** y - Math.abs(x) ** y) + err(z, unit, least) : Infinity;
    const ends = [functions.pow(x - ex, y - ey), functions.pow(x - ex, y + ey), functions.pow(x + ex, y - ey), functions.pow(x + ex, y + ey)];
    return Math.max(...ends.map((end) => apart(end, z))) + err(z, unit, least);
  };

  /** Of a function that is constant between whole numbers. */
  const stepError = (f, x, ex) => (ex === 0 || f(x - ex) === f(x + ex) ? 0 : ex + 1);

  const names = {
    fround, rint, half, brain, wholeDivide, wholeRemain, wholeFloorDivide, wholeFloorRemain, bigDivide, bigRemain,
    bigFloorDivide, bigFloorRemain, bigMin, bigMax, shiftLeft, shiftRight, shiftLeftBig, shiftRightBig, toWhole, toBig,
    leadingZeros, onBits, copySign, divide, remain, floorDivide, floorRemain, functions, err, edges, beyond, summed, apart, divideError,
    remainError, floorDivideError, floorRemainError, riseError, coshError, tanError, atan2Error, powError, stepError,
  };

  /** The function of the arrays of inputs that `tvmagic.operators.javascript` wrote. */
  const reference = (text) =>
    new Function("names", `"use strict";\nconst { ${Object.keys(names).join(", ")} } = names;\nreturn (inputs) => {\n${text}\n};`)(names);

  return { reference, half, brain };
}
