// Sends a file by tus with a stock client, and goes on with what was begun before. A test kills it: it
// writes down how many bytes the server has, and where it went on.
import { createReadStream, statSync } from 'node:fs';
import tus from 'tus-js-client';

const [endpoint, path, store] = process.argv.slice(2);
const tell = (what, n) => process.stdout.write(`${what} ${n}\n`);
let begun = false;

const upload = new tus.Upload(createReadStream(path), {
  endpoint,
  uploadSize: statSync(path).size,
  chunkSize: 1 << 20,
  retryDelays: Array(60).fill(500),
  fingerprint: async () => path,
  urlStorage: new tus.FileUrlStorage(store),
  storeFingerprintForResuming: true,
  metadata: { filename: 'rows.csv', filetype: 'text/csv', name: 'By tus' },
  onBeforeRequest: (request) => {
    const offset = request.getHeader('Upload-Offset');
    if (offset !== undefined && !begun) tell('from', offset);
    begun ||= offset !== undefined;
  },
  onShouldRetry: () => {
    begun = false;
    return true;
  },
  onChunkComplete: (_, accepted) => tell('at', accepted),
  onError: (error) => {
    console.error(error);
    process.exitCode = 1;
  },
  onSuccess: () => tell('done', upload.url),
});
const [before] = await upload.findPreviousUploads();
if (before) upload.resumeFromPreviousUpload(before);
upload.start();
