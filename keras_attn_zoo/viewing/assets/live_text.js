// Text as a model reads and writes it, as in `data.words`, `data.subwords` and `data.truecasing`.

// What Python takes for space: JavaScript's differ.
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
const BEFORE = new RegExp(`^${SPACES.source}`);
const BEHIND = new RegExp(`${SPACES.source}$`);
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
  // "processor": of the library, with the model loaded; "all": the piece of each id; "truecaser": a Truecaser or null.
  constructor(processor, all, truecaser) {
    this.processor = processor;
    this.all = all;
    this.truecaser = truecaser;
    this.end = all.indexOf(END);
    this.unknown = all.indexOf(UNKNOWN);
    // Every model except a word model knows the space mark as a piece.
    this.ofWords = all.includes("▁") ? null : new Map(all.map((piece, id) => [piece, id]));
  }

  encode(text) {
    const read = this.truecaser ? this.truecaser.truecase(text) : normalise(text);
    // SentencePiece would merge neighbouring unknown words into one piece.
    if (this.ofWords) return read.split(" ").filter(Boolean).map((word) => this.ofWords.get(`▁${word}`) ?? this.unknown);
    return this.processor.encodeIds(read);
  }

  decode(ids) {
    // One that is empty would be a mistake to the library.
    const text = ids.length ? this.processor.decodeIds(ids).replaceAll("\0", "\ufffd") : "";
    return normalise(this.truecaser ? this.truecaser.detruecase(text) : text);
  }

  pieces(ids) { return ids.map((id) => this.all[id]); }
}

// What is done to decoded text, in this order, if a tokenizer asks for it.
const CLEANED = [[" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"]];

// The subwords of a Marian model, as in `data.marian_pieces`: SentencePiece cuts text, a vocabulary gives the ids.
class LiveMarianPieces extends LiveSubwords {
  // "own": the pieces of the SentencePiece model; "all": those of the vocabulary; "known": what the description says.
  constructor(processor, own, all, { added_tokens: added, clean_up_spaces: cleanUp }) {
    super(processor, all, null);
    this.own = new Map(own.map((piece, id) => [piece, id]));
    this.added = new Map(added.map((token) => [token.content, token]));
    // Of those that begin at a place, the longest.
    const longestFirst = [...this.added.keys()].sort((a, b) => b.length - a.length);
    const escaped = (text) => [...text].map((one) => `\\u{${one.codePointAt(0).toString(16)}}`).join("");
    this.pattern = added.length ? new RegExp(`(${longestFirst.map(escaped).join("|")})`, "u") : null;
    this.cleanUp = cleanUp;
    this.skipped = new Set([UNKNOWN, ...MARKS, ...added.filter(({ skipped }) => skipped).map(({ content }) => content)]);
    // Unknown characters come as they stand: those of "</s>" are no end.
    this.ids = new Map(all.map((piece, id) => [piece, id]).filter(([piece]) => piece !== END && piece !== "<pad>"));
  }

  encode(text) {
    // Text is cut as it stands, as by Transformers.
    const pieces = this.split(text).flatMap((part) => this.cut(part));
    return pieces.map((piece) => this.ids.get(piece) ?? this.unknown);
  }

  // Added tokens, and what is between them.
  split(text) {
    const parts = this.pattern ? text.split(this.pattern).filter(Boolean) : [text];
    parts.forEach((part, i) => {
      const { lstrip, rstrip, single_word: alone } = this.added.get(part) ?? {};
      const [left, right] = [parts[i - 1] ?? "", parts[i + 1] ?? ""];
      if (rstrip && right) parts[i + 1] = right.replace(BEFORE, "");
      if (lstrip && left) parts[i - 1] = left.replace(BEHIND, "");
      if (alone && left && !left.endsWith(" ")) [parts[i - 1], parts[i]] = [parts[i - 1] + part, ""];
      else if (alone && right && !right.startsWith(" ")) [parts[i], parts[i + 1]] = ["", part + parts[i + 1]];
    });
    return parts.filter(Boolean);
  }

  // The pieces of text that is one added token, or has none; it may begin with the code of a language.
  cut(text) {
    if (this.added.has(text)) return [text];
    const end = text.startsWith(">>") ? text.indexOf("<<") + 2 : 0;
    const code = end > 1 ? text.slice(0, end) : "";
    return [...(code ? [code] : []), ...this.processor.encodePieces(text.slice(code.length))];
  }

  decode(ids) {
    const pieces = this.pieces(ids).filter((piece) => !this.skipped.has(piece));
    // SentencePiece leaves out the space in front of a first piece of its own.
    if (this.own.has(pieces[0])) pieces[0] = pieces[0].replace(/^▁/, "");
    const bytes = this.own.has("<0x00>") ? /(?:<0x[0-9A-F]{2}>)+/g : /(?!)/;
    let text = pieces.join("").replace(bytes, (run) => this.processor.decodeIds(run.match(/<.*?>/g).map((piece) => this.own.get(piece)))).replaceAll("▁", " ");
    for (const [spaced, cleaned] of this.cleanUp ? CLEANED : []) text = text.replaceAll(spaced, cleaned);
    return text.split(SPACES).filter(Boolean).join(" ");
  }
}
