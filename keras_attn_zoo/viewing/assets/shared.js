// What the page has in common with the worker that translates in a browser: words and their tokens, and deflated bytes.

const END = "</s>";
const UNKNOWN = "<unk>";

// The words of a text, and the word in which each of its tokens begins: a space belongs to the word behind it, and
// marks at the end of a word are a word of their own, as in `split_words` and `group_pieces`.
function groupTokens(tokens) {
  const texts = tokens.map((token) => (token === END ? "" : token.replaceAll("▁", " ")));
  const words = texts.join("").replace(/([,.;:?!]+)(?=\s|$)/g, " $1").split(/\s+/).filter(Boolean);
  if (!words.length && tokens.some((token) => token !== END)) words.push("");
  const letters = words.flatMap((word, at) => new Array(word.length).fill(at));
  let read = 0;
  const groups = texts.map((text, at) => {
    const first = tokens[at] === END ? words.length : letters[read] ?? words.length - 1;
    read += text.replace(/\s/g, "").length;
    return first;
  });
  return { words, groups };
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
