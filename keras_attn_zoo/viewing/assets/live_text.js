// Text as a model reads and writes it, as in `data.words`, `data.subwords` and `data.truecasing`.

// What Python takes for space: JavaScript's differ.
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
const WORD = /[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/u;
const SENTENCE_END = /[.:?!]['"’”“»«)\]]*$/;

function normalise(text) {
  return text.split(SPACES).filter(Boolean).join(" ").replace(/^[\ufeff ]+/, "").normalize("NFC");
}

function splitWords(text) {
  return text.replace(/([,.;:?!]+)(?= |$)/g, " $1").split(" ").filter(Boolean);
}

// The most frequent case of each word, from the lines of a model: WORD (COUNT/ALL) OTHERCASE (COUNT).
class Truecaser {
  constructor(model) {
    this.best = new Map();
    this.known = new Set();
    for (const line of model.split("\n").filter(Boolean)) {
      const casings = line.split(" ").filter((_, i) => i % 2 === 0);
      this.best.set(casings[0].toLowerCase(), casings[0]);
      for (const one of casings) this.known.add(one);
    }
  }

  truecase(text) {
    let place = "line";
    const tokens = normalise(text).split(" ").map((token) => {
      const found = WORD.exec(token);
      let changed = token;
      if (found && (place === "line" || (place === "inside" && !this.known.has(found[0])))) {
        const best = this.best.get(found[0].toLowerCase()) ?? found[0];
        changed = token.slice(0, found.index) + best + token.slice(found.index + found[0].length);
      }
      if (found || place !== "line") {
        place = SENTENCE_END.test(token) || (!found && place === "sentence") ? "sentence" : "inside";
      }
      return changed;
    });
    return normalise(tokens.join(" "));
  }

  detruecase(text) {
    const found = WORD.exec(text);
    if (!found) return text;
    const [first] = found[0];
    const capital = first.toUpperCase();
    // The capital of a ligature would be two letters.
    if ([...capital].length > 1) return text;
    return text.slice(0, found.index) + capital + text.slice(found.index + first.length);
  }
}

// The pieces of a SentencePiece model: the first field of each first field of its protocol buffer.
function readPieces(bytes) {
  const pieces = [];
  let at = 0;
  const number = () => {
    let [value, shift, byte] = [0, 0, 0];
    do {
      byte = bytes[at++];
      value += (byte & 127) * 2 ** shift;
      shift += 7;
    } while (byte & 128);
    return value;
  };
  while (at < bytes.length) {
    const field = number() >> 3;
    const end = number() + at;
    if (field === 1) {
      at += 1;
      const size = number();
      pieces.push(new TextDecoder().decode(bytes.subarray(at, at + size)));
    }
    at = end;
  }
  return pieces;
}

// A subword model: SentencePiece and what is done to text before and after.
class LiveSubwords {
  // "processor": of the library, with the model loaded; "bytes": those of the model; "truecaser": a Truecaser or null.
  constructor(processor, bytes, truecaser) {
    this.processor = processor;
    this.all = readPieces(bytes);
    this.truecaser = truecaser;
    this.end = this.all.indexOf(END);
    // Every model except a word model knows the space mark as a piece.
    this.ofWords = this.all.includes("▁") ? null : new Map(this.all.map((piece, id) => [piece, id]));
  }

  read(text) { return this.truecaser ? this.truecaser.truecase(text) : normalise(text); }

  encode(text) {
    const read = this.read(text);
    // SentencePiece would merge neighbouring unknown words into one piece.
    if (this.ofWords) return read.split(" ").filter(Boolean).map((word) => this.ofWords.get(`▁${word}`) ?? this.all.indexOf(UNKNOWN));
    return this.processor.encodeIds(read);
  }

  decode(ids) {
    // One that is empty would be a mistake to the library.
    const text = ids.length ? this.processor.decodeIds(ids).replaceAll("\0", "\ufffd") : "";
    return normalise(this.truecaser ? this.truecaser.detruecase(text) : text);
  }

  pieces(ids) { return ids.map((id) => this.all[id]); }

  // The words of a text, and that of each of its tokens: unknown ones as they stand there.
  group(text, ids) {
    const read = this.read(text);
    const spelt = this.ofWords ? read.split(" ").filter(Boolean).map((word) => `▁${word}`) : this.processor.encodePieces(read);
    const words = splitWords(normalise(text));
    const { groups } = groupTokens([...spelt.slice(0, ids.length - 1), END]);
    return { words, groups: groups.map((group, i) => (ids[i] === this.end ? words.length : group)) };
  }
}
