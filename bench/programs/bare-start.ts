/** The floor under first-answer.ts: a process that imports nothing starts one worker and prints what it posts. */
import { isMainThread, parentPort, Worker } from 'node:worker_threads'

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url))
  worker.once('message', (answer: string) => {
    console.log(answer)
    void worker.terminate()
  })
} else parentPort!.postMessage('You said: hello')
