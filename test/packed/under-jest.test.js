/** Tests of a user under Jest with ES modules, which it takes as they are: no TypeScript among them. */
import { expect, test } from '@jest/globals'
import greeter from './greeter.js'
import { testTeams } from './team-tests.js'

testTeams({ test, expect }, greeter)
