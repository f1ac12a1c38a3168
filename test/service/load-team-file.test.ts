import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadTeamFile } from '../../src/service/shared/load-team-file.ts'

t.test('returns the default export of a JavaScript file', async (t) => {
  const folder = t.testdir({
    'team.mjs': "export default { agents: [{ name: 'a' }] }",
    'team.cjs': 'module.exports = { agents: [] }',
  })
  t.match(await loadTeamFile('team.mjs', folder), { agents: [{ name: 'a' }] })
  t.match(await loadTeamFile(join(folder, 'team.cjs'), '/'), { agents: [] })
})

t.test('what is no team file is refused with what to do', async (t) => {
  const folder = t.testdir({
    'named.mjs': 'export const team = {}',
    'list.mjs': 'export default []',
    'text.mjs': "export default 'team'",
    'running.mjs': 'export default { execute() {} }',
    'team.json': '{}',
    'agents.yaml': 'agents: []',
    'empty.yml': '',
    'folder.js': {},
    'agent.mjs': "export default { [Symbol.for('dramatis.agent')]: true, receive() {} }",
  })
  const refused: Record<string, RegExp> = {
    'nowhere.ts': /"nowhere\.ts": there is no such file in /,
    'folder.js': /"folder\.js": that is a folder/,
    'agent.mjs': /exports an agent; a team file names its module in a role\. Write: /,
    'named.mjs': /has no default export\. Write: export default defineTeam\(/,
    'list.mjs': /exports a list as its default/,
    'text.mjs': /exports team as its default/,
    'running.mjs': /exports a team that runs already/,
    'team.json': /got "\.json"; accepted: \.js, \.mjs/,
    'agents.yaml': /^agents\.yaml:1:9: agents: got an empty list/,
    'empty.yml': /^empty\.yml:1:1: the file is empty/,
  }
  for (const [file, message] of Object.entries(refused)) {
    await t.rejects(loadTeamFile(file, folder), { code: 'CONFIGURATION', message }, file)
  }
})

t.test('a file that cannot be imported is named with the place', async (t) => {
  const folder = t.testdir()
  writeFileSync(join(folder, 'typo.mjs'), 'const a = 1\nexport default {{\n')
  writeFileSync(join(folder, 'throws.mjs'), "\n\nthrow new TypeError('no such key')")
  const typo = { code: 'CONFIGURATION', message: /^Team file "typo\.mjs": SyntaxError: .*\(at .*typo\.mjs:2\)/ }
  await t.rejects(loadTeamFile('typo.mjs', folder), typo)
  const throws = {
    code: 'CONFIGURATION',
    message: /^Team file "throws\.mjs": TypeError: no such key \(at .*throws\.mjs:3\)/,
  }
  await t.rejects(loadTeamFile('throws.mjs', folder), throws)
})

t.test('a missing library is named with the command that installs it', async (t) => {
  const folder = t.testdir({
    'team.mjs':
      "const error = Object.assign(new Error(\"Cannot find package 'dramatis' imported from x\"), { code: 'ERR_MODULE_NOT_FOUND' })\nthrow error",
  })
  await t.rejects(loadTeamFile('team.mjs', folder), { message: /npm install dramatis/ })
})
