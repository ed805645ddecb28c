// Reads the beginning of a safetensors file: what the answer says of itself, and the first rows of its first tensor.

const READERS = {
  F64: [8, (view, at) => view.getFloat64(at, true)],
  F32: [4, (view, at) => Number(view.getFloat32(at, true).toPrecision(7))],
  F16: [2, (view, at) => half(view.getUint16(at, true))],
  BF16: [2, (view, at) => bfloat(view.getUint16(at, true))],
  I64: [8, (view, at) => Number(view.getBigInt64(at, true))],
  I32: [4, (view, at) => view.getInt32(at, true)],
  I16: [2, (view, at) => view.getInt16(at, true)],
  I8: [1, (view, at) => view.getInt8(at)],
  U8: [1, (view, at) => view.getUint8(at)],
  BOOL: [1, (view, at) => view.getUint8(at) === 1],
};

const KINDS = {
  F64: "float64", F32: "float32", F16: "float16", BF16: "bfloat16",
  I64: "int64", I32: "int32", I16: "int16", I8: "int8", U8: "uint8", BOOL: "bool",
};

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  const value = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14;
  return Number((sign * value).toPrecision(4));
}

function bfloat(bits) {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint16(0, bits);
  return Number(view.getFloat32(0).toPrecision(3));
}

// How many bytes of the file hold the header; from the first eight.
export function headerEnd(buffer) {
  return 8 + Number(new DataView(buffer).getBigUint64(0, true));
}

// What an answer says of itself, its tensors in the order of `names` (the file has an order of its own), and the first
// rows of the first tensor that begins within the buffer.
export function readBeginning(buffer, names, mostRows, mostColumns) {
  const end = headerEnd(buffer);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, end - 8)));
  const { __metadata__: metadata, ...entries } = header;
  const tensors = Object.entries(entries)
    .map(([name, { dtype, shape, data_offsets: [start] }]) => ({ name, dtype, shape, start: end + start, kind: KINDS[dtype] }))
    .sort((one, other) => names.indexOf(one.name) - names.indexOf(other.name) || one.start - other.start);
  const first = tensors.find(({ start }) => start < buffer.byteLength) ?? tensors[0];
  return { about: JSON.parse(metadata.posenc), tensors, first, rows: rowsOf(first, buffer, mostRows, mostColumns) };
}

function rowsOf({ dtype, shape, start }, buffer, mostRows, mostColumns) {
  const [size, read] = READERS[dtype];
  const width = shape.at(-1) ?? 1;
  const count = shape.slice(0, -1).reduce((product, length) => product * length, 1);
  const view = new DataView(buffer);
  const rows = [];
  for (let row = 0; row < Math.min(count, mostRows); row += 1) {
    const from = start + row * width * size;
    const columns = Math.min(width, mostColumns, Math.floor((buffer.byteLength - from) / size));
    if (columns < 1) break;
    rows.push(Array.from({ length: columns }, (_, column) => read(view, from + column * size)));
  }
  return rows;
}
