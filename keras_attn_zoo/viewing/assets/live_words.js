// The word of each piece of a sentence, as in `word_attention` and `piece_positions`, which say why.

const PUNCTUATION = /^[,.;:?!]/;
const MARKS = ["<pad>", "<s>", END];
const SPACE = "▁";
// In place of a letter: any number of them.
const ANY = null;

// The letters by which a character is compared.
function fold(character) {
  if (character === " ") return [SPACE];
  // To capitals and back, "ß" is "ss".
  const folded = character.normalize("NFKD").toUpperCase().toLowerCase().normalize("NFKD");
  return [...folded.replaceAll(" ", "")];
}

// The words as a sentence, a character each, and the word of each character.
function joinWords(words) {
  const characters = [];
  const owners = [];
  words.forEach((word, at) => {
    const own = characters.length && !PUNCTUATION.test(word) ? ` ${word}` : word;
    for (const character of own) { characters.push(character); owners.push(at); }
  });
  return { characters, owners };
}

// Where the first letter of each piece is in the letters of all, and these letters.
function readLetters(pieces) {
  const starts = [];
  const read = [];
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const add = (text) => { for (const one of text) read.push(...fold(one)); };
  for (const piece of pieces) {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
    if (!byte) add(decoder.decode());
    const before = read.length;
    if (piece === UNKNOWN) read.push(ANY);
    else add(byte ? decoder.decode(Uint8Array.of(parseInt(byte[1], 16)), { stream: true }) : piece);
    const letter = read.slice(before).findIndex((one) => one !== SPACE);
    starts.push(before + Math.max(0, letter));
  }
  add(decoder.decode());
  return { starts, read };
}

// The place in "text" of each letter that was read, and of the end, by the fewest edits.
function layLetters(read, text, spaces) {
  let start = 0;
  while (start < Math.min(read.length, text.length) && read[start] === text[start]) start++;
  while (start > 0 && start < read.length && read[start - 1] === SPACE) start--;
  const behind = layByEdits(read.slice(start), text.slice(start), spaces.slice(start));
  return [...read.slice(0, start).keys(), ...behind.map((place) => start + place), text.length];
}

function layByEdits(read, text, spaces) {
  const unit = 1 + spaces.filter(Boolean).length + read.filter((one) => one === SPACE).length;
  const deleted = spaces.map((space) => (space ? 1 : 4 * unit));
  const difference = (one, other) => (one === other ? 0 : ((one === SPACE) !== (other === SPACE) ? 14 : 7) * unit);
  const width = text.length + 1;
  // Edits between what was read up to i and the text up to j.
  const costs = new Float64Array((read.length + 1) * width);
  const covered = [0];
  text.forEach((_, j) => {
    costs[j + 1] = costs[j] + deleted[j];
    covered.push(covered[j] + (spaces[j] ? 4 * unit : 0));
  });
  // A space in front of what stands for anything is its own.
  const begun = (i, j) => (j && spaces[j - 1] ? Math.min(costs[i * width + j], costs[i * width + j - 1]) : costs[i * width + j]);
  read.forEach((letter, i) => {
    const here = (i + 1) * width;
    for (let j = 0; j < width; j++) {
      if (letter === ANY) {
        costs[here + j] = Math.min(begun(i, j), j ? costs[here + j - 1] + covered[j] - covered[j - 1] : Infinity);
        continue;
      }
      costs[here + j] = costs[i * width + j] + (letter === SPACE ? 1 : 5 * unit);
      if (j) costs[here + j] = Math.min(costs[here + j], costs[i * width + j - 1] + difference(letter, text[j - 1]), costs[here + j - 1] + deleted[j - 1]);
    }
  });
  // What was not read at the end costs little.
  let [least, left, j] = [Infinity, 0, 0];
  for (let end = text.length; end >= 0; end--) {
    if (end < text.length && !spaces[end]) left += 3 * unit;
    const all = costs[read.length * width + end] + Math.min(left, 9 * unit);
    if (all <= least) [least, j] = [all, end];
  }
  const places = [];
  for (let i = read.length - 1; i >= 0; i--) {
    const here = (i + 1) * width;
    if (read[i] === ANY) {
      let first = 0;
      while (begun(i, first) + covered[j] - covered[first] !== costs[here + j]) first++;
      j = first - Number(begun(i, first) < costs[i * width + first]);
    } else {
      while (j) {
        const laid = costs[here + j] === costs[i * width + j - 1] + difference(read[i], text[j - 1]);
        if (!laid && costs[here + j] !== costs[here + j - 1] + deleted[j - 1]) break;
        j--;
        if (laid) break;
      }
    }
    places.unshift(j);
  }
  return places;
}

// The word in which each piece begins. The end of the sentence is a word of its own, behind the others.
function groupPieces(pieces, words) {
  const ofMark = (piece) => (piece === END ? words.length : -1);
  const { characters, owners } = joinWords(words);
  if (!characters.length) return pieces.map(ofMark);
  const { starts, read } = readLetters(pieces.filter((piece) => !MARKS.includes(piece)));
  // Every word begins with a space, the first one too.
  const folded = [" ", ...characters].map(fold);
  const wordOf = [...folded.flatMap((letters, i) => letters.map(() => owners[Math.max(0, i - 1)])), owners.at(-1)];
  const spaces = folded.flatMap((letters, i) => letters.map(() => i === 0 || characters[i - 1] === " "));
  const places = layLetters(read, folded.flat(), spaces);
  const found = starts.map((start) => wordOf[places[start]]).values();
  return pieces.map((piece) => (MARKS.includes(piece) ? ofMark(piece) : found.next().value));
}
