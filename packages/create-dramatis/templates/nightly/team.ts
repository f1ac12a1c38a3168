import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { defineTeam } from 'dramatis'

/** Reads each document of the folder once, also if the process dies meanwhile, and makes one report of all. */
export default defineTeam({
  agents: [{ name: 'reader', module: new URL('./reader.js', import.meta.url), maxOutputTokens: 200 }],
  orchestration: {
    strategy: 'custom',
    async run(script, folder) {
      // A step runs once, and its result is in the log. What begins anew after a crash goes through them in no time.
      const once = { idempotent: true }
      const names = await script.step('list', async () => (await readdir(folder)).sort(), once)
      const lines = []
      for (const name of names) {
        const read = async () => {
          console.log(`reading ${name}`)
          await setTimeout(Number(process.env.PAUSE_MS ?? 0)) // room to kill it half-way
          return readFile(join(folder, name), 'utf8')
        }
        const text = await script.step(`read ${name}`, read, once)
        const { content } = await script.request('reader', text)
        lines.push(`- ${name}: ${content}`)
      }
      return `# ${names.length} documents\n\n${lines.join('\n')}\n`
    },
  },
  budget: { perRun: { tokens: 200_000 } },
})
