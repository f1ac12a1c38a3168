/**
 * What the manager and the developers say where there is no model. The files, the commands and what these print are real: the
 * page's script is not served at first, which the test finds out.
 */
import { scriptedModel } from 'dramatis/testing'
import { by } from '../lib/by.ts'
import {
  API_TEST,
  PACKAGE,
  PAGE,
  PAGE_TEST,
  SCRIPT_WITH_MARKUP,
  SCRIPT_WITH_TEXT,
  SERVER_WITH_SCRIPT,
  SERVER_WITHOUT_SCRIPT,
  USERS,
} from './session-files.ts'

const writes = (path: string, content: string) => ({ toolCall: { name: 'write_file', input: { path, content } } })
const runs = (file: string) => ({ toolCall: { name: 'run_cmd', input: { command: 'node', args: [file] } } })
const approves = (remarks = '') => ({ reply: { approved: true, remarks } })

const PLAN = {
  tasks: [
    {
      worker: 'backend_dev',
      task: 'Write server.js: GET /api/users/<id> answers with that user of users.json, or 404; GET /users/<id> answers with public/profile.html. Test the API.',
      dependsOn: [],
    },
    {
      worker: 'frontend_dev',
      task: 'Write public/profile.html, and profile.js beside it: it takes the id from the address of the page, gets the user from the API, and shows name, email and bio.',
      dependsOn: [1],
    },
    {
      worker: 'backend_dev',
      task: 'Test the page with what it loads, and correct the server if it has to be.',
      dependsOn: [1, 2],
    },
  ],
  reasoning: 'The page needs the API, and both together need a test.',
}

const manager = by(
  'project_manager',
  { when: /Plan how your workers/, reply: PLAN },
  { when: /proposes/, ...approves('Numbers alone are ids.') },
  { when: /has done its task/, ...approves() },
  { when: /proposes/, ...approves() },
  {
    when: /innerHTML/,
    reply: { approved: false, remarks: 'A name can have markup in it. Show it as text: textContent.' },
  },
  { when: /proposes/, ...approves() },
  { when: /has done its task/, ...approves() },
  {
    when: /all 3 tests pass/,
    reply:
      'There is a profile page at /users/<id>, with its data from GET /api/users/<id>; names are shown as text. All 3 tests pass. Start it with: node server.js',
  },
)

const frontend = by(
  'frontend_dev',
  { when: /how you would do/, reply: 'One page without a framework, and a module that fills it.' },
  writes('public/profile.html', PAGE),
  writes('public/profile.js', SCRIPT_WITH_MARKUP),
  { reply: 'Written: public/profile.html and public/profile.js, which sets innerHTML of name, email and bio.' },
  { when: /textContent/, ...writes('public/profile.js', SCRIPT_WITH_TEXT) },
  { reply: 'Written: public/profile.html and public/profile.js, which sets textContent.' },
)

const backend = by(
  'backend_dev',
  {
    when: /how you would do/,
    reply: 'With node:http alone: two routes, users from users.json, and a test on a free port.',
  },
  { when: /Numbers alone are ids/, ...writes('package.json', PACKAGE) },
  writes('users.json', USERS),
  writes('server.js', SERVER_WITHOUT_SCRIPT),
  writes('api.test.js', API_TEST),
  runs('api.test.js'),
  {
    when: /pass 2\b.*fail 0/s,
    reply: 'Written: package.json, users.json, server.js and api.test.js. Both tests pass.',
  },

  { when: /how you would do/, reply: 'A test that loads the page, finds its script in it, and loads that.' },
  writes('page.test.js', PAGE_TEST),
  runs('page.test.js'),
  { when: /\/profile\.js is not served/, ...writes('server.js', SERVER_WITH_SCRIPT) },
  runs('page.test.js'),
  { when: /pass 1\b.*fail 0/s, ...runs('api.test.js') },
  {
    when: /pass 2\b.*fail 0/s,
    reply: 'Written: page.test.js. It found that profile.js was not served; server.js serves it now. all 3 tests pass.',
  },
)

export const playedModel = () => scriptedModel([...manager, ...frontend, ...backend])
