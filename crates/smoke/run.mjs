// Runs every case of the module named on the command line, and sums up in the words of `cargo test`.
// Every case has an instance of its own: after a trap nothing in one can be trusted.
import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const instance = () => new WebAssembly.Instance(module, {}).exports;
const text = (exports, start, length) =>
  new TextDecoder().decode(new Uint8Array(exports.memory.buffer, start, length));

const count = instance().smoke_count();
let failed = 0;
for (let i = 0; i < count; i++) {
  const exports = instance();
  const name = text(exports, exports.smoke_name(i), exports.smoke_name_length(i));
  let why = null;
  try {
    if (exports.smoke_run(i) !== 0) why = "";
  } catch (trap) {
    why = `${trap}: `;
  }
  if (why === null) {
    console.log(`test ${name} ... ok`);
  } else {
    failed += 1;
    why += text(exports, exports.smoke_message(), exports.smoke_message_length());
    console.log(`test ${name} ... FAILED: ${why}`);
  }
}
const verdict = failed === 0 && count > 0 ? "ok" : "FAILED";
console.log(`test result: ${verdict}. ${count - failed} passed; ${failed} failed`);
process.exitCode = verdict === "ok" ? 0 : 1;
