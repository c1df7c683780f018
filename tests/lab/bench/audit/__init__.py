"""An audit trail of millions of records, and how long its reconciliation takes.

events      a record's number -> what it says, as expressions                   (knows no JSON, no chain)
trail       events -> table `audit` with lines and hash chains; a metadata log that explains them
faults      what is planted in it, and what has to be found
figures     laps -> rates, and how they grow with the trail                    (knows no Spark)
__main__    makes trails of several sizes, checks them, tells how the time grows
year        a trail of many days, through the jobs of the service: what the last day costs against the first
"""
