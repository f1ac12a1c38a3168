/** Starts the standalone server in a folder, gives its team a task, prints the answer and ends the server. */
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'

const port = await freePort()
const env = { ...process.env, PORT: String(port), HOSTNAME: '127.0.0.1' }
const server = spawn(process.execPath, ['server.js'], {
  cwd: process.argv[2],
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
})
server.on('exit', (code) => code && process.exit(code))
for await (const said of server.stdout) if (/Ready/.test(String(said))) break
const headers = { 'content-type': 'application/json' }
const body = JSON.stringify({ query: 'Next' })
const response = await fetch(`http://127.0.0.1:${port}/agents/api/tasks`, { method: 'POST', headers, body })
console.log(response.status, (await response.json()).answer)
server.kill('SIGKILL')

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}
