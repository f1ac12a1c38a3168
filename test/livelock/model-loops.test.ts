/** Teams of models that go round in circles: they are told, and what goes on after all notices is ended. */
import { modelLoops } from './model-loops.ts'
import { playAll } from './play-models.ts'

playAll(modelLoops)
