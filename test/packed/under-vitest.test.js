/** Tests of a user under vitest, which import TypeScript too. */
import { expect, test } from 'vitest'
import faulty from './faulty.ts'
import { testTeams } from './team-tests.js'

testTeams({ test, expect }, faulty)
