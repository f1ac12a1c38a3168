/** A team that nobody closes: its process lives as long as somebody waits for it or work is under way, and no longer. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('../fixtures/team/forgets-to-close.js', import.meta.url))

/** How the program ends that does that and forgets to close its team. */
async function endOf(what: string): Promise<{ ended: unknown[]; output: string; errors: string }> {
  const child = spawn(process.execPath, [program, what], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { ended: await exited, output, errors }
}

const WAITED: Record<string, string> = {
  nothing: 'nothing',
  start: 'start',
  execute: 'slept 100',
  'a tool': '',
  'a crash while it starts': 'a crash while it starts',
  close: 'close',
}

for (const [what, waited] of Object.entries(WAITED))
  t.test(`a program that has waited for ${what}, and forgets its team, ends by itself`, async (t) => {
    const { ended, output, errors } = await endOf(what)
    t.same(ended, [0, null], errors)
    t.match(output, `waited: ${waited}`)
  })

for (const what of ['a message that nobody waits for', 'a run that nobody waits for'])
  t.test(`a program that has begun ${what} ends when that is done`, async (t) => {
    const { ended, output, errors } = await endOf(what)
    t.same(ended, [0, null], errors)
    t.match(output, 'waited: ')
    t.match(errors, 'info lazy slept')
  })
