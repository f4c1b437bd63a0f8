// What the page has in common with the worker that translates in a browser.

const END = "</s>";
const UNKNOWN = "<unk>";

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
