/** Teams of models that come to their end: nobody is told without need, and no turn is ended. */
import { modelPrograms } from './model-programs.ts'
import { playAll } from './play-models.ts'

playAll(modelPrograms)
