// A body that fits what an address asks for, where the address alone does not say it: of the sizes that its parameters
// name, as small as shows something, so that a link holds it.

const MOST_NUMBERS = 900; // of vectors, for which an address of the page has room
const MOST_PLACES = 16; // along a sequence
const MOST_ALONG = 4; // along an axis of a grid
const WIDTH = 8;
const LONGEST = 4096; // of any axis: an address may say anything

const PADDING_ROWS = { opt: () => 2, roberta: ({ padding_idx: index }) => Number(index ?? 1) + 1 };

// By scheme: from the parameters, the body; what is asked for is made smaller in the parameters where it has to be.
const BODIES = {
  "apply/rope": (given, dim) => ({ tensors: { q: turnable(dim || widthOf(given)) } }),
  "apply/rope-axes": turned,
  "encodings/rope-axes": (given) => (given.grid ? null : { positions: places(sectionsOf(given).length, WIDTH) }),
  "encodings/gaussian-fourier": featured,
  "encodings/detr-boxes": () => ({ positions: places(2, WIDTH) }),
  "learned/lookup": looked,
  "learned/resample": resized,
  "learned/factorised": () => ({ tensors: { rows: vectors(3, WIDTH), columns: vectors(4, WIDTH) } }),
  "masks/padding": masked,
};

// The request of an address that comes without a body; `dim` is the width of the tables of the same use, where there are.
export function fitted(entry, parameters, dim, otherwise) {
  const make = BODIES[`${entry.family}/${entry.name}`];
  if (!make) return { parameters, body: otherwise };
  const given = Object.fromEntries(parameters);
  const body = make(given, dim);
  // A row of a table is a line.
  return { parameters: new Map(Object.entries(given)), body: body ? JSON.stringify(body).replaceAll("],[", "],\n[") : "" };
}

function turned(given, dim) {
  const width = dim || widthOf(given);
  if (!given.grid) {
    const q = turnable(width);
    return { tensors: { q }, positions: places(sectionsOf(given).length, q.length) };
  }
  const more = Number("class_token" in given);
  const grids = [4, 3, 2, 1].map((most) => smaller(given, most));
  const grid = grids.find((each) => (product(each) + more) * width <= MOST_NUMBERS) ?? grids.at(-1);
  given.grid = grid.join();
  return { tensors: { q: vectors(product(grid) + more, width) } };
}

// A grid with so many places along an axis, or what is merged into one of them.
function smaller({ grid, spatial_merge_size: merged }, most) {
  const step = Number(merged ?? 1);
  return numbers(grid).map((length) => Math.min(length, Math.ceil(most / step) * step));
}

function featured(given) {
  given.seed ??= "0";
  return { positions: places(2, WIDTH) };
}

function looked(given) {
  if (!given.positions) given.length = String(Math.min(Number(given.length ?? MOST_PLACES), MOST_PLACES));
  const most = given.positions ? Math.max(...numbers(given.positions)) + 1 : Number(given.length) + Number(given.offset ?? 0);
  return { tensors: { x: vectors(most + (PADDING_ROWS[given.offset_rule]?.(given) ?? 0), WIDTH) } };
}

function resized(given) {
  given.grid ??= "4,4";
  const [old, wanted] = [numbers(given.old_grid ?? given.grid), numbers(given.grid)];
  const share = Math.min(1, MOST_ALONG / Math.max(...old));
  const shrunk = (grid) => grid.map((length) => Math.max(1, Math.round(length * share)));
  given.grid = shrunk(wanted).join();
  given.old_grid = shrunk(old).join();
  return { tensors: { x: vectors(product(shrunk(old)) + Number(given.prefix ?? 0), WIDTH) } };
}

// Three quarters of them tokens.
function masked(given) {
  const length = Number(given.keys ?? given.length ?? MOST_PLACES);
  return { tensors: { attention_mask: counted(length, (place) => Number(place * 4 < length * 3)) } };
}

// How many channels a rotation needs, by what it says of its frequencies.
function widthOf(given) {
  if (given.rotary_dim) return Number(given.rotary_dim);
  if (given.sections) return 2 * sectionsOf(given).reduce((sum, each) => sum + each, 0);
  const list = given.raw_frequencies ?? given.frequencies ?? given.long_factor;
  const share = Number(given.partial_rotary_factor ?? 1);
  if (list?.includes(",")) return Math.round((2 * numbers(list).length) / share);
  return [64, 80, 96, 128].find((width) => Number.isInteger((width * share) / 2)) ?? 128;
}

const numbers = (text = "") => text.split(",").map(Number);
const sectionsOf = ({ sections }) => numbers(sections ?? "1,1");
const product = (lengths) => lengths.reduce((all, each) => all * each, 1);

const counted = (length, make) => Array.from({ length: Math.min(length, LONGEST) }, (_, number) => make(number));

// Rows of digits: numbers that differ, and take little room.
const vectors = (rows, width) => counted(rows, (row) => counted(width, (column) => (row * 7 + column * 3) % 10));

// Vectors along a sequence, the fewer the wider they are.
const turnable = (width) => vectors(Math.max(1, Math.min(MOST_PLACES, Math.floor(MOST_NUMBERS / width))), width);

// Places within the unit square or cube, along a diagonal.
const places = (axes, count) => counted(count, (place) => counted(axes, (axis) => (place + axis) / 16));
