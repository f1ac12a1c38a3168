/** Modules that are agents, on real threads: of each kind that Node can load, and each is run once. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { silent } from '../supervision/teams.ts'

/** Notes in a file beside it that the module has run. */
const noted = (how: string) => `${how}.appendFileSync(new URL('ran.txt', import.meta.url), 'x')\n`
const esm = `import fs from 'node:fs'\nimport { defineAgent } from 'dramatis'\n${noted('fs')}`

const kinds: Record<string, { files: Record<string, string>; entry: string }> = {
  'a module': {
    entry: 'agent.mjs',
    files: { 'agent.mjs': `${esm}export default defineAgent({ receive: () => 'hi' })\n` },
  },
  'a module that awaits at its top level': {
    entry: 'agent.mjs',
    files: {
      'agent.mjs': `${esm}const word = await Promise.resolve('hi')\nexport default defineAgent({ receive: () => word })\n`,
    },
  },
  'a module that imports one that awaits': {
    entry: 'agent.mjs',
    files: {
      'agent.mjs':
        "import { defineAgent } from 'dramatis'\nimport { word } from './word.mjs'\nexport default defineAgent({ receive: () => word })\n",
      'word.mjs': `import fs from 'node:fs'\n${noted('fs')}export const word = await Promise.resolve('hi')\n`,
    },
  },
  'a CommonJS module': {
    entry: 'agent.cjs',
    files: {
      'agent.cjs': `const { defineAgent } = require('dramatis')
require('node:fs').appendFileSync(require('node:path').join(__dirname, 'ran.txt'), 'x')
module.exports = defineAgent({ receive: () => 'hi' })
`,
    },
  },
  'a module that gives another value to who requires it': {
    entry: 'agent.mjs',
    files: {
      'agent.mjs': `${esm}const other = 5
export { other as 'module.exports' }
export default defineAgent({ receive: () => 'hi' })
`,
    },
  },
}

for (const [kind, { files, entry }] of Object.entries(kinds))
  t.test(`${kind} is an agent, and has run once`, async (t) => {
    const folder = t.testdir(files)
    const team = createTeam({
      agents: [{ name: 'ann', module: join(folder, entry) }],
      orchestration: { strategy: 'sequential' },
      threads: { warmSpares: 0 },
      logger: silent,
    })
    t.teardown(() => team.close())
    const result = await team.execute('hello')
    t.equal(result.finalOutput, 'hi', String(result.error))
    t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'x')
  })

t.test('a module that throws has run once for each thread that tried', async (t) => {
  const folder = t.testdir({ 'agent.mjs': `${esm}throw new Error('no paper')\n` })
  const team = createTeam({
    agents: [{ name: 'ann', module: join(folder, 'agent.mjs') }],
    orchestration: { strategy: 'sequential' },
    logger: silent,
  })
  t.teardown(() => team.close())
  await t.rejects(team.start(), { code: 'CONFIGURATION', message: /agent\.mjs:4:7: Error: no paper$/ })
  t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'x')
})
