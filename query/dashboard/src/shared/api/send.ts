import { token } from './access';
import { endpoint } from './address';
import { refusal } from './client';

/**
 * Sends a form with a file, which the browser reads as it goes, and says how many bytes of all are sent: fetch does
 * not tell. Throws what the server refuses, or that it does not answer.
 */
export function sendForm<T>(
  path: string,
  form: FormData,
  told: (sent: number, all: number) => void,
  signal: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', endpoint(`api/v1/${path}`));
    if (token.value) request.setRequestHeader('Authorization', `Bearer ${token.value}`);
    request.upload.onprogress = ({ loaded, total }) => told(loaded, total);
    request.onload = () => {
      const { status, statusText, responseText } = request;
      if (status >= 200 && status < 300) resolve(JSON.parse(responseText) as T);
      else void refusal(new Response(responseText, { status, statusText })).then(reject);
    };
    request.onerror = () => reject(new Error('The connection broke before the server had answered.'));
    request.onabort = () => reject(new Error('It was stopped.'));
    signal.addEventListener('abort', () => request.abort());
    request.send(form);
  });
}
